// What a program sees of the real service.
const assert = require("node:assert/strict");
const { Client, BatchError, ServiceError, hashEmail } = require("sluice-client");

async function main() {
  const key = process.env.SLUICE_API_KEY;
  const client = new Client({ url: process.env.SLUICE_URL, key, datasetId: "shop" });
  const event = (more) => ({ timestamp: new Date(), event_type: "page_view", identifiers: { email_sha256: hashEmail("Ana@Example.com") }, ...more });

  const late = await client.send(event({ timestamp: new Date(Date.now() - 8 * 86_400_000) }));
  assert.deepEqual([late.accepted, late.warnings[0].code], [1, "LATE_EVENT"]);
  const found = await client.status(late.submissionId, { events: true });
  assert.deepEqual([found.datasetId, found.late, found.events.length, found.events[0].optimizationEligible], ["shop", 1, 1, false]);

  const nobody = event({ identifiers: { partner_id: "p" } });
  const failed = await client.sendBatch([event(), nobody, event()]).catch((e) => e);
  assert.ok(failed instanceof BatchError, failed);
  assert.deepEqual([failed.receipts[0].accepted, failed.rejected, failed.problems[0].index, failed.problems[0].code], [2, 1, 1, "MISSING_IDENTIFIER"]);
  assert.notEqual(failed.problems[0].hint, "");
  const all = await client.sendBatch([nobody]).catch((e) => e);
  assert.deepEqual([all.name, all.rejected], ["BatchError", 1]);
  const [mixed] = await client.sendBatch([event({ custom_data: { "a\ud800": "b\udfff" } })]);
  assert.equal(mixed.accepted, 1);

  const body = JSON.stringify(event({ data_set_id: "shop", timestamp: Math.floor(Date.now() / 1000) }));
  const first = await client.submit({ body, key: "order-1" });
  const again = await client.submit({ body, key: "order-1" });
  assert.deepEqual([first.replayed, again.replayed, again.submissionId], [false, true, first.submissionId]);
  const reused = await client.send(event({ event_type: "search" }), { key: "order-1" }).catch((e) => e);
  assert.equal(reused.code, "IDEMPOTENCY_KEY_REUSED");
  const strict = await client.submit({ body: `[${body},{}]`, batch: true, strict: true }).catch((e) => e);
  assert.ok(strict instanceof ServiceError && strict.status === 400, strict);
  const closed = await new Client({ url: process.env.SLUICE_URL, key: "wrong", datasetId: "shop" }).send(event()).catch((e) => e);
  assert.deepEqual([closed.keyRejected, closed.code], [true, "INVALID_API_KEY"]);

  // The numbers of the dataset: what was sent above, some seconds later.
  let stats;
  for (const end = Date.now() + 20_000; ; await new Promise((done) => setTimeout(done, 200))) {
    stats = await client.stats({ window: "1h" });
    if (stats.rejections.some((r) => r.errorCode === "MISSING_IDENTIFIER") || Date.now() > end) break;
  }
  assert.equal(stats.datasetId, "shop");
  assert.equal(stats.received, stats.accepted + stats.rejected);
  assert.ok(stats.accepted >= 4 && stats.late >= 1 && stats.key.createdAt <= new Date() && stats.rejections[0].hint !== "", stats);

  // A certificate that nobody vouches for will not become better: no second try.
  let tries = 0;
  const untrusted = new Client({ url: process.env.UNTRUSTED_URL, key, datasetId: "shop", sleep: async () => void tries++ });
  const rejected = await untrusted.send(event()).catch((e) => e);
  assert.deepEqual([rejected.name, tries], ["Error", 0]);
  console.log("ok");
}

main();
