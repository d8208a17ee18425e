import sluice from "./index.js";

export const {
  Client, Queue, hashEmail, hashIPv4,
  HashError, ServiceError, GiveUpError, BatchError, QueueError, QueueFullError, QueueClosedError,
  MAX_EVENTS, MAX_BYTES, FILL_EVENTS, FILL_BYTES,
} = sluice;
