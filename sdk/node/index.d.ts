import type { Agent } from "node:http";

/** A value that JSON can hold. */
export type Json = string | number | boolean | null | Json[] | { [name: string]: Json };

/** The event types. "custom" needs a custom_event_name. */
export type EventType =
  | "purchase" | "page_view" | "ad_impression" | "add_to_wishlist" | "add_to_cart" | "viewed_cart" | "viewed_item"
  | "begin_checkout" | "add_payment_info" | "remove_from_cart" | "refund" | "generate_lead" | "qualify_lead"
  | "close_convert_lead" | "disqualify_lead" | "close_unconvert_lead" | "sign_up" | "search" | "unlock_achievement"
  | "install" | "customize_product" | "contact" | "donate" | "find_location" | "schedule" | "start_trial"
  | "subscribe" | "custom" | "add_shipping_info" | "share" | "select_content" | "select_item" | "select_promotion"
  | "view_item_list" | "view_promotion" | "view_search_results" | "spend_virtual_currency" | "earn_virtual_currency"
  | "working_lead" | "login" | "join_group" | "level_up" | "post_score" | "tutorial_begin" | "tutorial_complete";

/** One conversion event, in the words of the API. Members that are undefined are left out. */
export interface Event {
  /** Missing: the datasetId of the Client. */
  data_set_id?: string;
  /** Unix seconds, or a Date, which is sent in seconds. */
  timestamp: number | Date;
  event_type: EventType;
  /** Needed by "custom". */
  /** Your own id of what happened, the same in every report of it. */
  id?: string | number;
  custom_event_name?: string;
  /** Where it happened: website, app, offline, crm … */
  source?: string;
  cp_id?: string;
  cp_name?: string;
  referer?: string;
  page_url?: string;
  /** Needs currency_code. */
  value?: number;
  /** ISO 4217. */
  currency_code?: string;
  identifiers: Identifiers;
  privacy?: Privacy;
  /** Free: up to 100 members, three levels. */
  custom_data?: { [name: string]: Json };
  /** True: for measurement only. */
  mmt_only?: boolean;
  schema_version?: "1.0" | "v1";
}

/** The hashed ways to recognise a person or a device. At least one of the first three is needed. */
export interface Identifiers {
  /** By hashEmail. */
  email_sha256?: string;
  /** Advertising id of a device. */
  ifa?: string;
  /** By hashIPv4. */
  ip?: string;
  /** An opaque id of your own; not enough alone. */
  partner_id?: string;
}

/** The consent signals of the person. */
export interface Privacy {
  gpp_string?: string;
  /** Needed by gpp_string. */
  gpp_sid?: number[];
  us_privacy_string?: string;
}

/** Why the service rejected an event. It never holds a value of the event. */
export interface Problem {
  /** Index of the event in the array that you passed. */
  index: number;
  code: string;
  /** JSON Pointer inside the event. */
  field: string;
  message: string;
  /** How to correct it. */
  hint: string;
}

/** A remark on an accepted event. */
export interface Warning {
  index: number;
  code: string;
  field: string;
  message: string;
}

/** The service holds the accepted events on stable storage. */
export interface Receipt {
  submissionId: string;
  receivedAt: Date;
  status: string;
  /** Events that were queued. */
  accepted: number;
  /** Events that were rejected. */
  rejected: number;
  /** Why, at most 100. */
  problems: Problem[];
  /** There were more than 100. */
  truncated: boolean;
  /** Of accepted events. */
  warnings: Warning[];
  /** The service knew the Idempotency-Key: this is the receipt of an earlier try. */
  replayed: boolean;
  /** The Idempotency-Key. */
  key: string;
  /** Index of the request's first event in the array given to sendBatch. */
  first: number;
}

/** What would become of events. */
export interface Verdict {
  /** No event would be rejected. */
  valid: boolean;
  accepted: number;
  rejected: number;
  problems: Problem[];
  truncated: boolean;
  warnings: Warning[];
  events: ValidEvent[];
}

/** What would become of a valid event. */
export interface ValidEvent {
  index: number;
  /** As it would be stored, in the words of the API. */
  event: { [name: string]: Json };
  privacy: "unrestricted" | "measurement_only" | "suppressed";
  privacyReasons: string[];
  /** Decoded sections; null without a GPP string. */
  gpp: { [section: string]: Json } | null;
}

/** What the service knows of a submission. */
export interface Submission {
  submissionId: string;
  datasetId: string;
  receivedAt: Date;
  /** PROCESSED once the events are in the tables. */
  status: "RECEIVED" | "PROCESSED";
  accepted: number;
  rejected: number;
  late: number;
  restricted: number;
  suppressed: number;
  /** Only if you asked for events. */
  events?: SubmissionEvent[];
}

/** The numbers of a dataset in a window. Times are in UTC. */
export interface Stats {
  datasetId: string;
  window: "1h" | "24h" | "7d" | "30d";
  from: Date;
  /** End of the hour or day that is running now. */
  to: Date;
  /** False while a server that has just started still reads its tables: the numbers are too small then. */
  complete: boolean;
  received: number;
  accepted: number;
  rejected: number;
  late: number;
  outcomes: { unrestricted: number; measurementOnly: number; suppressed: number };
  /** Requests with events; byCode has the rejected ones by the error code of their answer. */
  requests: { accepted: number; rejected: number; byCode: { [code: string]: number } };
  /** The most frequent first. */
  eventTypes: { eventType: string; accepted: number }[];
  /** Reasons for rejections, of the most events first. */
  rejections: StatsRejection[];
  identifiers: { field: string; events: number; share: number }[];
  matchReadiness: { points: number; formula: string; terms: { withEmailOrIfa: number; withIpOnly: number; accepted: number } };
  freshness: { countedAt: Date; delaySeconds: number; lastAcceptedHour?: Date };
  /** The key of this client: its id, never itself. */
  key: { keyId: string; createdAt: Date; ageSeconds: number; endsAt?: Date };
  /** With by: "campaign": of the most events first. */
  campaigns?: StatsCampaign[];
  /** With by: "campaign": true. A conversion that was sent twice counts twice. */
  asReported?: boolean;
  /** With by: "campaign": which views count each conversion once. */
  note?: string;
}

/** What was reported of one campaign. "(none)" are suppressed events without one, "(other)" those beyond the first thousand. */
export interface StatsCampaign {
  cpId: string;
  /** The name that was seen last. */
  cpName: string;
  /** By type. */
  events: { [type: string]: number };
  /** By currency, without refunds. */
  value: { [currency: string]: number };
  /** By currency, never negative. */
  refunds: { [currency: string]: number };
}

export interface StatsRejection {
  errorCode: string;
  field: string;
  /** Events whose first problem it was: they add up to Stats.rejected. */
  events: number;
  /** How often it was found at all. */
  problems: number;
  firstSeen: Date;
  lastSeen: Date;
  hint: string;
  /** A member with a valid value. */
  example?: string;
}

export interface SubmissionEvent {
  index: number;
  eventId: string;
  eventType: string;
  late: boolean;
  privacy: "unrestricted" | "measurement_only" | "suppressed";
  optimizationEligible: boolean;
}

/** Bounds of the tries of one request, in milliseconds. A member that is missing or 0 has its default. */
export interface Retry {
  /** Upper end of the first wait: 250. It doubles with every try. */
  base?: number;
  /** Largest upper end: 20,000. */
  max?: number;
  /** Longest single try: 30,000. */
  attempt?: number;
  /** From the first try to the last answer, waits included: 120,000. */
  total?: number;
  /**
   * Retries that all requests of a Client may have in hand: 50. A retry takes one, a success gives back a tenth. When it
   * is used up, a request is tried once and no more. Negative: no such bound.
   */
  budget?: number;
}

export interface ClientOptions {
  /** Address of the service, for example https://events.example.com. */
  url: string;
  /** The dataset's API key. */
  key: string;
  /** Put into every event that names no dataset. */
  datasetId?: string;
  /** Sent before the client's own name. */
  userAgent?: string;
  /** Compress bodies over 1 KiB: true. */
  gzip?: boolean;
  /** Allow an http:// address that is not this machine's own. The key then travels readable. */
  plainHTTP?: boolean;
  /** Carries the requests, for example through a proxy. Missing: a private one that keeps connections. */
  agent?: Agent;
  /** Called for every try; adds headers, such as those of a trace. */
  headers?: () => Record<string, string>;
  retry?: Retry;
  /** The clock for dates in Retry-After: Date.now. */
  now?: () => number;
  /** Waits between tries; tests replace it. */
  sleep?: (ms: number, signal?: AbortSignal) => Promise<void>;
  /** 0 to below 1; tests replace it. */
  random?: () => number;
}

export interface SubmitOptions {
  /** JSON: one object, or an array if batch is set. */
  body: string | Uint8Array;
  batch?: boolean;
  /** Events in the body, so that a clean receipt can say how many were accepted: 1. */
  events?: number;
  /** Idempotency-Key: a fresh one. */
  key?: string;
  /** One invalid event rejects the whole batch. */
  strict?: boolean;
  signal?: AbortSignal;
}

/** Sends the events of one dataset. */
export class Client {
  constructor(options: ClientOptions);
  /** Sends one event. It resolves once the event is on stable storage. */
  send(event: Event, options?: { key?: string; signal?: AbortSignal }): Promise<Receipt>;
  /**
   * Sends events in as few requests as their number and size allow, one after the other. Unless every event was
   * accepted, it rejects with a BatchError, whose indexes are those of your array. An empty array makes no request.
   */
  sendBatch(events: Event[], options?: { signal?: AbortSignal }): Promise<Receipt[]>;
  /** Tries one event, or an array of them, under the rules of the service. Nothing is stored or counted. */
  validate(events: Event | Event[], options?: { signal?: AbortSignal }): Promise<Verdict>;
  /** Sends one body that is JSON already. In a batch some events may be rejected: only the receipt says so. */
  submit(options: SubmitOptions): Promise<Receipt>;
  /** Looks up a submission of the key's own dataset. */
  status(submissionId: string, options?: { events?: boolean; signal?: AbortSignal }): Promise<Submission>;
  /** Reads the numbers of the key's own dataset. An event is counted some seconds after its receipt. */
  stats(options?: { window?: "1h" | "24h" | "7d" | "30d"; by?: "campaign"; signal?: AbortSignal }): Promise<Stats>;
  /** Closes idle connections. */
  close(): void;
}

export interface QueueOptions {
  /** Memory for events, encoded: 32 MiB. */
  maxBytes?: number;
  /** The longest that an event waits for its batch to fill, in milliseconds: 1,000. */
  flushEvery?: number;
  /** Batches under way at once: 2. */
  parallel?: number;
  /** Called for every batch that was not wholly accepted. */
  onFailure?: (failure: QueueFailure) => void;
}

export interface QueueFailure {
  /** The JSON of every event of the batch. */
  events: string[];
  /** Which of them were rejected or not confirmed, by index in events. */
  error: BatchError;
}

/** Counts what became of the events that a Queue took. */
export interface QueueReport {
  taken: number;
  accepted: number;
  rejected: number;
  /** Events that the service did not confirm. */
  unsent: number;
  /** Events that are not settled yet. */
  waiting: number;
  warnings: number;
  /** The first 100; index is that within its batch. */
  problems: Problem[];
  lastError?: Error;
}

/**
 * Collects events and sends them in the background. It holds at most maxBytes of events, those under way included.
 * Every event that it took is accepted by the service, or counted in the report and handed to onFailure. Node does not
 * exit by itself while events wait; call close before process.exit.
 */
export class Queue {
  constructor(client: Client, options?: QueueOptions);
  /** Takes an event; waits while the queue is full. */
  add(event: Event, options?: { signal?: AbortSignal }): Promise<void>;
  /** Takes an event, or throws QueueFullError. */
  offer(event: Event): void;
  /** Sends everything that waits, and resolves when it is settled. */
  flush(): Promise<void>;
  /**
   * Takes no more events, sends what is left, and resolves when all is settled. It rejects with a QueueError unless the
   * service accepted every event that the queue took.
   */
  close(options?: { timeout?: number }): Promise<QueueReport>;
  stats(): QueueReport;
}

/** email_sha256 of an address: white space around it cut off, letters lowered, SHA-256 in lower-case hex. */
export function hashEmail(address: string): string;
/** ip of an IPv4 address: its dotted form, SHA-256 in lower-case hex. */
export function hashIPv4(address: string): string;

/** A value cannot be hashed. */
export class HashError extends Error {
  code: "ALREADY_HASHED" | "NOT_EMAIL" | "NOT_IPV4";
}

/** The service answered, and it is no success. */
export class ServiceError extends Error {
  status: number;
  /** Empty when the answer was not the service's own, but a proxy's. */
  code: string;
  /** What to tell the operator. */
  requestId: string;
  problems: Problem[];
  truncated: boolean;
  /** As the service asked, in milliseconds; 0: it did not. */
  retryAfter: number;
  /** The service rejected the key, or the key's use for this dataset. */
  readonly keyRejected: boolean;
}

/** No final answer came. The events may or may not be stored. */
export class GiveUpError extends Error {
  /** The Idempotency-Key of every try: the same bytes with this key are stored at most once. */
  key: string;
  attempts: number;
  reason: string;
  cause: Error;
}

/** Some events of a batch were not accepted. */
export class BatchError extends Error {
  /** Of the requests that succeeded. */
  receipts: Receipt[];
  rejected: number;
  /** By index in your array; at most 100 for each request. */
  problems: Problem[];
  truncated: boolean;
  /** Runs of events, from (inclusive) to (exclusive), that the service did not confirm. */
  unsent: { from: number; to: number; error: Error }[];
}

/** A queue was closed, and not every event was accepted. */
export class QueueError extends Error {
  report: QueueReport;
}

/** The queue has no memory for the event now. */
export class QueueFullError extends Error {}

/** The queue takes no more events. */
export class QueueClosedError extends Error {}

/** Events in a batch. */
export const MAX_EVENTS: 1000;
/** Bytes of a body, before compression. */
export const MAX_BYTES: 5242880;
/** Events that a Queue puts into one batch. */
export const FILL_EVENTS: 500;
/** Bytes after which a Queue closes a batch. */
export const FILL_BYTES: 1000000;
