"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const test = require("node:test");
const sluice = require("sluice-client"); // the package itself, or the one that is installed beside a copy of this file
const { start, fail, purchase } = require("./stand-in.js");

const vectors = JSON.parse(fs.readFileSync(process.env.SLUICE_VECTORS ?? path.join(__dirname, "..", "..", "vectors.json"), "utf8"));
const hash = { email: sluice.hashEmail, ip: sluice.hashIPv4 };
const quick = { sleep: async () => {} };
const open = (service, options) => new sluice.Client({ url: service.url, key: "test-key", datasetId: "spring", ...quick, ...options });

test("hashes", () => {
  for (const v of vectors.hash.vectors) assert.equal(hash[v.kind](v.input), v.sha256, JSON.stringify(v));
  for (const v of vectors.hash.rejected) assert.throws(() => hash[v.kind](v.input), { name: "HashError", code: v.error }, JSON.stringify(v));
  assert.throws(() => sluice.hashEmail("ana@\ud800"), { code: "NOT_EMAIL" });
  assert.throws(() => sluice.hashEmail(undefined), TypeError);
});

test("limits", async (t) => {
  const { MAX_EVENTS, MAX_BYTES, FILL_EVENTS, FILL_BYTES } = sluice;
  const want = vectors.limits;
  assert.deepEqual([MAX_EVENTS, MAX_BYTES, FILL_EVENTS, FILL_BYTES], [want.max_events, want.max_bytes, want.fill_events, want.fill_bytes]);
  const service = await start(t);
  const client = open(service);
  const size = (more) => Buffer.byteLength(JSON.stringify({ ...purchase(more), data_set_id: "spring" }));
  for (const [bytes, encoding] of [[want.gzip_over, undefined], [want.gzip_over + 1, "gzip"]]) {
    await client.send(purchase({ source: "x".repeat(bytes - size({ source: "" })) }));
    assert.equal(service.requests.at(-1).body.length, bytes);
    assert.equal(service.requests.at(-1).headers["content-encoding"], encoding);
  }
});

test("split", async (t) => {
  const service = await start(t);
  const client = open(service);
  const filler = (size) => {
    const bare = Buffer.byteLength(JSON.stringify({ ...purchase({ source: "" }), data_set_id: "spring" }));
    return purchase({ source: "x".repeat(size - bare) });
  };
  for (const c of vectors.split) {
    service.requests.length = 0;
    const receipts = await client.sendBatch(Array(c.events).fill(filler(c.size)));
    assert.deepEqual(service.requests.map((r) => JSON.parse(r.body).length), c.requests, JSON.stringify(c));
    assert.deepEqual(receipts.map((r) => r.accepted), c.requests);
  }
  await assert.rejects(client.sendBatch([filler(sluice.MAX_BYTES - 1)]), /event 0 is 5242879 bytes/);
});

test("answers that are tried again", async (t) => {
  for (const c of vectors.retry.answers) {
    const service = await start(t, (n, _, response) => {
      if (n > 1) return false;
      if (c.body === undefined) return fail(response, c.status, c.error_code);
      response.writeHead(c.status);
      response.end(c.body);
      return true;
    });
    const error = await open(service).send(purchase()).then(() => null, (e) => e);
    assert.equal(error === null, c.again, JSON.stringify(c));
    assert.equal(service.requests.length, c.again ? 2 : 1, JSON.stringify(c));
    if (c.again) assert.equal(service.requests[0].headers["idempotency-key"], service.requests[1].headers["idempotency-key"]);
    else assert.deepEqual([error.name, error.status, error.code], ["ServiceError", c.status, c.error_code]);
  }
});

test("Retry-After", async (t) => {
  for (const c of vectors.retry.retry_after) {
    const waits = [];
    const service = await start(t, (n, _, response) => n === 1 && fail(response, 429, "RATE_LIMITED", { "Retry-After": c.header }));
    const client = open(service, { now: () => Date.parse(c.now), random: () => 0, sleep: async (ms) => waits.push(ms) });
    await client.send(purchase());
    assert.deepEqual(waits, [c.seconds * 1000], JSON.stringify(c));
  }
});

test("waits", async (t) => {
  const { base_ms: base, max_ms: max, after_try_ms: ceilings } = vectors.retry.ceilings;
  const waits = [];
  const service = await start(t, (n, _, response) => n <= ceilings.length && fail(response, 503, "UNAVAILABLE"));
  await open(service, { retry: { base, max }, random: () => 1, sleep: async (ms) => waits.push(ms) }).send(purchase());
  assert.deepEqual(waits, ceilings);
  const jittered = [];
  const other = await start(t, (n, _, response) => n <= 40 && fail(response, 503, "UNAVAILABLE"));
  await open(other, { retry: { base: 1000, max: 1000 }, sleep: async (ms) => jittered.push(ms) }).send(purchase());
  assert.ok(Math.min(...jittered) < 333 && Math.max(...jittered) > 667, "40 waits miss a third of the range");
});

test("defaults", async (t) => {
  const { base, max, attempt, total } = vectors.retry.defaults_ms;
  const waits = [];
  const service = await start(t, (_n, _, response) => fail(response, 503, "UNAVAILABLE"));
  const timers = t.mock.method(globalThis, "setTimeout");
  const error = await open(service, { random: () => 1, sleep: async (ms) => waits.push(ms) }).send(purchase()).catch((e) => e);
  const longest = Math.max(...timers.mock.calls.map((call) => call.arguments[1] ?? 0));
  timers.mock.restore();
  assert.ok(longest <= attempt && longest > attempt - 100, `a try may take ${longest} ms`);
  assert.equal(waits[0], base);
  assert.equal(Math.max(...waits), max);
  assert.equal(error.attempts, vectors.retry.budget + 1); // the waits cost no time here, so the budget ends it
  assert.match(error.reason, /retry budget/);
  assert.equal(error.cause.status, 503);
  const asking = await start(t, (_n, _, response) => fail(response, 503, "UNAVAILABLE", { "Retry-After": String(total / 1000 + 1) }));
  const late = await open(asking).send(purchase()).catch((e) => e);
  assert.match(late.reason, /no time was left/);
  assert.equal(asking.requests.length, 1);
});

test("budget", async (t) => {
  const { budget, rounds } = vectors.retry.budget_rounds;
  let broken = true;
  const service = await start(t, (_n, _, response) => broken && fail(response, 500, "INTERNAL_ERROR"));
  const client = open(service, { retry: { budget } });
  for (const round of rounds) {
    broken = round.service === "broken";
    const before = service.requests.length;
    for (let i = 0; i < round.requests; i++) {
      const error = await client.send(purchase()).then(() => null, (e) => e);
      assert.equal(error !== null, broken);
    }
    assert.equal(service.requests.length - before, round.tries, JSON.stringify(round));
  }
});
