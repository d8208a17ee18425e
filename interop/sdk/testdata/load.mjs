// Sends events one by one, in batches and by a queue, all at once, and prints how many were accepted.
import { Client, Queue } from "sluice-client";

const client = new Client({
  url: process.env.SLUICE_URL,
  key: process.env.SLUICE_API_KEY,
  datasetId: "shop",
  retry: { base: 20, max: 200, attempt: 1000, total: 60_000, budget: -1 },
});
let orders = 0;
const event = () => ({
  timestamp: new Date(),
  event_type: "purchase",
  value: 49.9,
  currency_code: "EUR",
  identifiers: { ifa: "8a7f4c2e-1b3d-4e5f-9a6b-7c8d9e0f1a2b" },
  custom_data: { order: `node-${orders++}` },
});
let accepted = 0;
let replayed = 0;
const count = (receipts) => {
  for (const receipt of receipts) {
    accepted += receipt.accepted;
    if (receipt.replayed) replayed++;
  }
};
async function singles() {
  for (let i = 0; i < 40; i++) count([await client.send(event())]);
}
async function batches() {
  for (let i = 0; i < 40; i++) count(await client.sendBatch(Array.from({ length: 20 }, event)));
}
async function queued() {
  const queue = new Queue(client, { flushEvery: 50, maxBytes: 200_000 });
  for (let i = 0; i < 5000; i++) await queue.add(event());
  const report = await queue.close();
  accepted += report.accepted;
}
await Promise.all([singles(), singles(), batches(), queued()]);
if (accepted !== orders) throw new Error(`${accepted} of ${orders} events were accepted`);
console.log(JSON.stringify({ accepted, replayed }));
