"use strict";

const http = require("node:http");
const zlib = require("node:zlib");

// start serves a small stand-in for the service on loopback: it speaks the shapes of the API and keeps Idempotency-Keys,
// but knows no rule of an event, except that one whose event_type is "bad" is rejected. answer(n, request, response) may
// answer in its place; then it returns true.
async function start(t, answer = () => false) {
  const service = { requests: [], stored: [], answer };
  const receipts = new Map();
  const server = http.createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    let body = Buffer.concat(chunks);
    if (request.headers["content-encoding"] === "gzip") body = zlib.gunzipSync(body);
    service.requests.push({ path: request.url, headers: request.headers, body: body.toString("utf8") });
    if (service.answer(service.requests.length, request, response)) return;
    const key = request.headers["idempotency-key"];
    if (receipts.has(key)) {
      response.setHeader("Idempotency-Replayed", "true");
      response.end(receipts.get(key));
      return;
    }
    const { status, text } = accept(service, request.url, JSON.parse(body));
    if (status === 200) receipts.set(key, text);
    response.statusCode = status;
    response.end(text);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections?.();
    server.close();
  });
  service.url = `http://127.0.0.1:${server.address().port}`;
  return service;
}

function accept(service, path, body) {
  const events = path === "/v1/events/batch" ? body : [body];
  const errors = [];
  events.forEach((event, index) => {
    if (event.event_type === "bad") {
      errors.push({ index, error_code: "INVALID_EVENT_TYPE", field: "/event_type", message: "Not a known type.", hint: "Use purchase." });
    } else {
      service.stored.push(event);
    }
  });
  if (errors.length === events.length) {
    return { status: 400, text: JSON.stringify({ status: "error", error_code: "INVALID_EVENT_TYPE", message: "Not a known type.", request_id: "r1", errors }) };
  }
  const receipt = { submission_id: "batch.01980f3e", received_at: "2026-11-14T23:40:05Z", status: "RECEIVED" };
  if (errors.length > 0) Object.assign(receipt, { accepted: events.length - errors.length, rejected: errors.length, errors });
  return { status: 200, text: JSON.stringify(receipt) };
}

function fail(response, status, code, headers = {}) {
  response.writeHead(status, headers);
  response.end(code ? JSON.stringify({ status: "error", error_code: code, message: "No.", request_id: "r1", errors: [] }) : "");
  return true;
}

const purchase = (more) => ({
  timestamp: 1_794_699_600,
  event_type: "purchase",
  identifiers: { email_sha256: "8e43ca37701228e74983efdbd0cff5c16b3b1e5d4e29a7c05626d4d25a018e11" },
  ...more,
});

module.exports = { start, fail, purchase };
