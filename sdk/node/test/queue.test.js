"use strict";

const assert = require("node:assert/strict");
const { spawn } = require("node:child_process");
const test = require("node:test");
const { Client, Queue } = require("sluice-client");
const { start, fail, purchase } = require("./stand-in.js");

const open = (service, options) => new Client({ url: service.url, key: "test-key", datasetId: "spring", sleep: async () => {}, ...options });

test("a queue fills batches", async (t) => {
  const service = await start(t);
  const queue = new Queue(open(service), { flushEvery: 60_000 });
  for (let i = 0; i < 1234; i++) await queue.add(purchase());
  const report = await queue.close();
  assert.deepEqual([report.taken, report.accepted, report.waiting, service.stored.length], [1234, 1234, 0, 1234]);
  assert.deepEqual(service.requests.map((r) => JSON.parse(r.body).length).sort(), [234, 500, 500]);
  await assert.rejects(queue.add(purchase()), { name: "QueueClosedError" });
});

test("an event does not wait long for company", async (t) => {
  const service = await start(t);
  const sent = new Promise((resolve) => (service.answer = () => (resolve(), false)));
  const queue = new Queue(open(service), { flushEvery: 20 });
  queue.offer(purchase());
  await sent;
  await queue.flush();
  assert.equal(queue.stats().accepted, 1);
});

test("memory is bounded", async (t) => {
  let release;
  const held = new Promise((resolve) => (release = resolve));
  const service = await start(t, (n, _, response) => {
    if (n > 1) return false;
    held.then(() => fail(response, 503, "UNAVAILABLE"));
    return true;
  });
  const size = Buffer.byteLength(JSON.stringify({ ...purchase(), data_set_id: "spring" }));
  const queue = new Queue(open(service), { maxBytes: 3 * size, flushEvery: 1, parallel: 1 });
  for (let i = 0; i < 3; i++) queue.offer(purchase());
  assert.throws(() => queue.offer(purchase()), { name: "QueueFullError" });
  await assert.rejects(queue.add(purchase(), { signal: AbortSignal.timeout(10) }), { name: "QueueFullError" });
  let taken = false;
  const fourth = queue.add(purchase()).then(() => (taken = true));
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(taken, false);
  release();
  await fourth;
  assert.equal((await queue.close()).accepted, 4);
  assert.throws(() => new Queue(open(service), { maxBytes: 10 }).offer(purchase()), RangeError);
});

test("failures are handed over", async (t) => {
  const service = await start(t);
  const failures = [];
  const queue = new Queue(open(service), { onFailure: (failure) => failures.push(failure) });
  await queue.add(purchase());
  await queue.add(purchase({ event_type: "bad" }));
  const error = await queue.close().catch((e) => e);
  assert.deepEqual([error.name, error.report.accepted, error.report.rejected, error.report.problems[0].index], ["QueueError", 1, 1, 1]);
  assert.equal(JSON.parse(failures[0].events[failures[0].error.problems[0].index]).event_type, "bad");
});

test("what is not confirmed is counted", async (t) => {
  const service = await start(t, (n, _, response) => fail(response, 403, "INVALID_API_KEY"));
  const queue = new Queue(open(service));
  for (let i = 0; i < 700; i++) await queue.add(purchase());
  const error = await queue.close().catch((e) => e);
  assert.deepEqual([error.report.unsent, error.report.waiting, error.report.lastError.cause?.code ?? error.report.lastError.code], [700, 0, "INVALID_API_KEY"]);
});

test("close has an end", async (t) => {
  const service = await start(t, () => true);
  const queue = new Queue(open(service, { retry: { attempt: 500, total: 600 } }));
  queue.offer(purchase());
  const error = await queue.close({ timeout: 20 }).catch((e) => e);
  assert.deepEqual([error.name, error.report.waiting], ["QueueError", 1]);
});

// A program that ends by itself has sent everything before it is gone, without a call of close.
test("a program that ends", async (t) => {
  const service = await start(t);
  const code = `
    const { Client, Queue } = require("sluice-client");
    const queue = new Queue(new Client({ url: process.argv[1], key: "test-key", datasetId: "spring" }), { flushEvery: 100 });
    for (let i = 0; i < 700; i++) queue.offer(${JSON.stringify(purchase())});`;
  const child = spawn(process.execPath, ["-e", code, service.url], { cwd: __dirname, stdio: "inherit" });
  const status = await new Promise((resolve) => child.on("exit", resolve));
  assert.deepEqual([status, service.stored.length], [0, 700]);
});
