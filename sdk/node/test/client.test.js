"use strict";

const assert = require("node:assert/strict");
const http = require("node:http");
const net = require("node:net");
const test = require("node:test");
const util = require("node:util");
const { Client } = require("sluice-client");
const { start, fail, purchase } = require("./stand-in.js");

const quick = { sleep: async () => {} };
const open = (url, options) => new Client({ url, key: "test-key", datasetId: "spring", ...quick, ...options });

test("what is not taken for an address or a key", () => {
  for (const url of ["events.example.com", "ftp://events.example.com", "http://events.example.com", "https://u:p@events.example.com", "https://events.example.com/?a", "https://events.example.com/#a", ""]) {
    assert.throws(() => open(url), TypeError, url);
  }
  for (const url of ["https://events.example.com/", "http://127.0.0.1:8080", "http://localhost", "http://[::1]:80"]) open(url);
  open("http://events.example.com", { plainHTTP: true });
  for (const key of ["", "a b", "a\n", "é", undefined]) assert.throws(() => open("https://events.example.com", { key }), TypeError);
});

test("the key does not print", async (t) => {
  const service = await start(t, (n, _, response) => fail(response, 403, "INVALID_API_KEY"));
  const client = open(service.url, { key: "secret-key" });
  const error = await client.send(purchase()).catch((e) => e);
  assert.equal(error.keyRejected, true);
  for (const text of [util.inspect(client, { depth: 9, showHidden: true }), JSON.stringify(client), util.inspect(error, { depth: 9 })]) {
    assert.ok(!text.includes("secret-key"), text);
  }
});

test("an event on the wire", async (t) => {
  const service = await start(t);
  const client = open(service.url, { headers: () => ({ traceparent: "00-abc" }), userAgent: "shop/2" });
  const receipt = await client.send(purchase({ timestamp: new Date(1_794_699_600_999), cp_name: undefined, custom_data: { "a\ud800\ud800b": "x\\ud800\udfff𐐀" } }));
  const [request] = service.requests;
  assert.deepEqual(JSON.parse(request.body), { ...purchase(), data_set_id: "spring", custom_data: { "a\ufffd\ufffdb": "x\\ud800\ufffd𐐀" } });
  assert.equal(request.headers.authorization, "Bearer test-key");
  assert.equal(request.headers.traceparent, "00-abc");
  assert.match(request.headers["user-agent"], /^shop\/2 sluice-client-node\/\d/);
  assert.deepEqual([receipt.accepted, receipt.rejected, receipt.replayed, receipt.key], [1, 0, false, request.headers["idempotency-key"]]);
  await client.send(purchase({ data_set_id: "other" }));
  assert.equal(JSON.parse(service.requests[1].body).data_set_id, "other");
  for (const bad of [purchase({ value: NaN }), purchase({ custom_data: { a: [Infinity] } }), purchase({ timestamp: new Date(NaN) }), null, []]) {
    await assert.rejects(client.send(bad), TypeError);
  }
});

test("an empty batch makes no request, and what is no event is named", async (t) => {
  const service = await start(t);
  const client = open(service.url);
  assert.deepEqual(await client.sendBatch([]), []);
  assert.equal(service.requests.length, 0);
  await assert.rejects(client.sendBatch(undefined), /sendBatch takes an array/);
  await assert.rejects(client.send(undefined), /an event is undefined/);
  await assert.rejects(client.sendBatch([purchase(), null]), /event 1 .*an event is null/);
});

test("events are tried without being stored", async (t) => {
  const answer = { valid: false, accepted: 1, rejected: 1, errors: [{ index: 1, error_code: "MISSING_FIELD", field: "/timestamp", message: "No.", hint: "Send it." }],
    warnings: [{ index: 1, code: "UNKNOWN_FIELD", field: "/x", message: "Dropped." }], events: [{ index: 0, event: { event_type: "purchase" }, privacy: "unrestricted", privacy_reasons: [], gpp: null }] };
  const service = await start(t, (n, _, response) => {
    response.end(n === 1 ? JSON.stringify(answer) : "{}");
    return true;
  });
  const client = open(service.url);
  const verdict = await client.validate([purchase(), purchase()]);
  assert.deepEqual([verdict.valid, verdict.accepted, verdict.problems[0].code, verdict.warnings[0].field, verdict.events[0].privacyReasons], [false, 1, "MISSING_FIELD", "/x", []]);
  assert.equal(service.requests[0].path, "/v1/events/validate");
  assert.equal(JSON.parse(service.requests[0].body).length, 2);
  assert.equal(service.requests[0].headers["idempotency-key"], undefined);
  await assert.rejects(client.validate(purchase()), /no verdict/);
});

test("problems have the index of the caller's array", async (t) => {
  const service = await start(t);
  const events = Array.from({ length: 2300 }, (_, i) => purchase(i % 700 === 5 ? { event_type: "bad" } : {}));
  const error = await open(service.url).sendBatch(events).catch((e) => e);
  assert.equal(error.name, "BatchError");
  assert.deepEqual(error.problems.map((p) => p.index), [5, 705, 1405, 2105]);
  assert.deepEqual(error.receipts.map((r) => [r.first, r.accepted, r.rejected]), [[0, 998, 2], [1000, 999, 1], [2000, 299, 1]]);
  assert.deepEqual([error.rejected, error.unsent, service.stored.length], [4, [], 2296]);
  assert.match(error.message, /^4 events rejected\n  event 5: INVALID_EVENT_TYPE at \/event_type: Not a known type. Use purchase.\n/);
});

test("a batch of which nothing is valid", async (t) => {
  const service = await start(t);
  const events = [...Array(1000).fill(purchase({ event_type: "bad" })), purchase()];
  const error = await open(service.url).sendBatch(events).catch((e) => e);
  assert.deepEqual([error.rejected, error.receipts.length, error.receipts[0].first], [1000, 1, 1000]);
});

// A 400 of what is between says nothing about the events.
test("a foreign rejection", async (t) => {
  const service = await start(t, (n, _, response) => fail(response, 400));
  const error = await open(service.url).sendBatch(Array(1500).fill(purchase())).catch((e) => e);
  assert.deepEqual([error.rejected, error.unsent.map(({ from, to }) => [from, to])], [0, [[0, 1500]]]);
});

test("what was not sent", async (t) => {
  const service = await start(t, (n, _, response) => n === 2 && fail(response, 403, "INVALID_API_KEY"));
  const error = await open(service.url).sendBatch(Array(3000).fill(purchase())).catch((e) => e);
  assert.deepEqual(error.unsent.map(({ from, to, error: e }) => [from, to, e.code]), [[1000, 3000, "INVALID_API_KEY"]]);
  assert.equal(service.requests.length, 2);
});

// An answer that is lost after the service stored the event must not store it twice.
test("a lost answer", async (t) => {
  let tries = 0;
  const service = await start(t);
  const target = new URL(service.url);
  const proxy = net.createServer((socket) => {
    const upstream = net.connect(Number(target.port), "127.0.0.1");
    socket.on("error", () => {});
    socket.pipe(upstream);
    if (++tries <= 2) upstream.once("data", () => socket.destroy());
    else upstream.pipe(socket);
  });
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  t.after(() => proxy.close());
  const client = open(`http://127.0.0.1:${proxy.address().port}`);
  t.after(() => client.close());
  const receipt = await client.send(purchase());
  assert.deepEqual([receipt.replayed, service.stored.length, service.requests.length], [true, 1, 3]);
});

test("a try that stalls", async (t) => {
  const service = await start(t, (n) => n === 1);
  const begin = performance.now();
  await open(service.url, { retry: { attempt: 200 } }).send(purchase());
  assert.ok(performance.now() - begin >= 195 && service.requests.length === 2);
});

test("an answer that comes drop by drop", async (t) => {
  const service = await start(t, (n, _, response) => {
    if (n > 1) return false;
    response.writeHead(200, { "Content-Length": 1000 });
    const drip = setInterval(() => response.write(" "), 20);
    response.on("close", () => clearInterval(drip));
    return true;
  });
  await open(service.url, { retry: { attempt: 200 } }).send(purchase());
  assert.equal(service.requests.length, 2);
});

test("a total time", async (t) => {
  const service = await start(t, (n, _, response) => fail(response, 503, "UNAVAILABLE"));
  const client = open(service.url, { retry: { total: 1000, base: 20, max: 20, budget: -1 }, sleep: undefined });
  const error = await client.send(purchase()).catch((e) => e);
  assert.equal(error.name, "GiveUpError");
  assert.ok([0, 1].includes(error.attempts - service.requests.length), "the end may come before the last try arrives");
  assert.ok(error.attempts > 1 && service.requests.every((r) => r.headers["idempotency-key"] === error.key));
});

test("an abort ends the wait", async (t) => {
  const service = await start(t, (n, _, response) => fail(response, 503, "UNAVAILABLE", { "Retry-After": "50" }));
  const stop = new AbortController();
  setTimeout(() => stop.abort(), 50);
  const error = await open(service.url, { sleep: undefined }).send(purchase(), { signal: stop.signal }).catch((e) => e);
  assert.deepEqual([error.name, error.reason, service.requests.length], ["GiveUpError", "the caller aborted it", 1]);
});

// A connection that the server closed while it was idle costs no retry.
test("an idle connection that was closed", async (t) => {
  const service = await start(t);
  const sockets = new Set();
  const agent = new http.Agent({ keepAlive: true });
  const proxy = net.createServer((socket) => {
    sockets.add(socket);
    const upstream = net.connect(Number(new URL(service.url).port), "127.0.0.1");
    socket.on("error", () => {});
    upstream.on("error", () => {});
    socket.on("data", (data) => (socket.dying ? socket.resetAndDestroy?.() ?? socket.destroy() : upstream.write(data)));
    upstream.pipe(socket);
  });
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  t.after(() => proxy.close() && agent.destroy());
  const client = open(`http://127.0.0.1:${proxy.address().port}`, { agent, retry: { total: 5000 }, sleep: () => assert.fail("it waited") });
  await client.send(purchase());
  for (const socket of sockets) socket.dying = true;
  await client.send(purchase());
  assert.equal(service.stored.length, 2);
  assert.equal(sockets.size, 2);
});

test("status", async (t) => {
  const found = { submission_id: "batch.1", data_set_id: "spring", received_at: "2026-11-14T23:40:05Z", status: "PROCESSED", accepted: 1, rejected: 0, late: 0, restricted: 0, suppressed: 0 };
  const events = [{ index: 0, event_id: "e", event_type: "purchase", late: false, privacy: "unrestricted", optimization_eligible: true }];
  const service = await start(t, (n, request, response) => {
    response.end(JSON.stringify(request.url.endsWith("?include=events") ? { ...found, events } : found));
    return true;
  });
  service.requests.length = 0;
  const client = open(service.url);
  assert.equal((await client.status("batch.1")).status, "PROCESSED");
  assert.equal((await client.status("a/b", { events: true })).events[0].optimizationEligible, true);
  assert.deepEqual(service.requests.map((r) => r.path), ["/v1/submissions/batch.1", "/v1/submissions/a%2Fb?include=events"]);
});

test("stats", async (t) => {
  const numbers = { data_set_id: "spring", window: "7d", from: "2026-11-08T00:00:00Z", to: "2026-11-15T00:00:00Z", complete: true, received: 12, accepted: 10, rejected: 2, late: 1,
    requests: { accepted: 5, rejected: 3, by_code: { MALFORMED_JSON: 3 } }, outcomes: { unrestricted: 8, measurement_only: 1, suppressed: 1 }, event_types: [{ event_type: "purchase", accepted: 10 }],
    rejections: [{ error_code: "INVALID_IDENTIFIER", field: "/identifiers/ip", events: 2, problems: 3, first_seen: "2026-11-08T01:00:00Z", last_seen: "2026-11-14T23:00:00Z", hint: "Hash it.", example: "e" }],
    identifiers: [{ field: "email_sha256", events: 9, share: 0.9 }], match_readiness: { points: 90, formula: "f", terms: { with_email_or_ifa: 9, with_ip_only: 0, accepted: 10 } },
    freshness: { counted_at: "2026-11-14T23:40:00Z", delay_seconds: 2, last_accepted_hour: "2026-11-14T23:00:00Z" }, key: { key_id: "k", created_at: "2026-11-01T00:00:00Z", age_seconds: 9 } };
  const campaigns = [{ cp_id: "spring", cp_name: "Spring", events: { add_to_cart: 2 }, value: { EUR: 5 }, refunds: {} }];
  const service = await start(t, (n, request, response) => {
    response.end(n > 3 ? "{}" : JSON.stringify(n === 3 ? { ...numbers, campaigns, as_reported: true, note: "n" } : numbers));
    return true;
  });
  service.requests.length = 0;
  const client = open(service.url);
  const stats = await client.stats();
  assert.deepEqual(
    [stats.datasetId, stats.received, stats.outcomes.measurementOnly, stats.eventTypes[0].eventType, stats.matchReadiness.terms.withEmailOrIfa, stats.key.keyId, stats.key.endsAt],
    ["spring", 12, 1, "purchase", 9, "k", undefined],
  );
  assert.deepEqual(stats.requests, { accepted: 5, rejected: 3, byCode: { MALFORMED_JSON: 3 } });
  const [reason] = stats.rejections;
  assert.deepEqual([reason.errorCode, reason.events, reason.firstSeen.toISOString(), stats.freshness.countedAt.toISOString()], ["INVALID_IDENTIFIER", 2, "2026-11-08T01:00:00.000Z", "2026-11-14T23:40:00.000Z"]);
  await client.stats({ window: "7d" });
  const byCampaign = await client.stats({ window: "7d", by: "campaign" });
  assert.deepEqual([byCampaign.campaigns, byCampaign.asReported], [[{ cpId: "spring", cpName: "Spring", events: { add_to_cart: 2 }, value: { EUR: 5 }, refunds: {} }], true]);
  assert.deepEqual(service.requests.map((r) => r.path), ["/v1/stats", "/v1/stats?window=7d", "/v1/stats?by=campaign&window=7d"]);
  const foreign = await client.stats().catch((e) => e);
  assert.deepEqual([foreign.name, foreign.cause.status], ["GiveUpError", 200]);
});

test("ESM has the same names", async () => {
  const esm = await import("sluice-client");
  const cjs = require("sluice-client");
  for (const name of Object.keys(cjs)) assert.equal(esm[name], cjs[name], name);
});
