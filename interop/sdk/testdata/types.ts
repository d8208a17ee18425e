import { BatchError, Client, Queue, hashEmail, type Event, type Receipt } from "sluice-client";

const client = new Client({ url: "http://127.0.0.1", key: "k", datasetId: "shop", retry: { total: 1000 } });
const event: Event = {
  timestamp: new Date(),
  event_type: "purchase",
  value: 1,
  currency_code: "EUR",
  identifiers: { email_sha256: hashEmail("ana@example.com") },
  custom_data: { items: [{ sku: "a", price: 1.5, gift: null }] },
};

export async function main(): Promise<number> {
  const receipts: Receipt[] = await client.sendBatch([event]).catch((error: unknown) => {
    if (error instanceof BatchError) return error.receipts.filter((r) => error.problems.every((p) => p.index !== r.first));
    throw error;
  });
  const queue = new Queue(client, { onFailure: ({ events, error }) => void [events[0]?.length, error.unsent[0]?.from] });
  await queue.add(event);
  const found = await client.status(receipts[0]!.submissionId, { events: true });
  const privacy: "unrestricted" | "measurement_only" | "suppressed" | undefined = found.events?.[0]?.privacy;
  const numbers: number | undefined = (await client.stats({ window: "7d" })).rejections[0]?.firstSeen.getTime();
  // @ts-expect-error there is no such window
  await client.stats({ window: "2d" });
  // @ts-expect-error an event has identifiers
  await client.send({ timestamp: 1, event_type: "purchase" });
  // @ts-expect-error the value is a number
  await client.send({ ...event, value: "1" });
  // @ts-expect-error the key is needed
  new Client({ url: "http://127.0.0.1" });
  return privacy === undefined && numbers === undefined ? 0 : (await queue.close()).accepted;
}
