"use strict";

const http = require("node:http");
const https = require("node:https");
const { ServiceError } = require("./errors.js");
const { retryAfter } = require("./retry.js");

const MAX_ANSWER = 16 * 1024 * 1024; // bytes of an answer: 1,000 warnings are under 1 MB

// exchange makes one request and gives its answer, { header, body }. Any status but 200 is a ServiceError. It ends after
// timeout milliseconds, or when the signal says so. A redirect is not followed: the key would go along.
//
// A server may close an idle connection while we send on it. That is no failure of the service: the request is made
// again on another connection at once. This is safe, because every POST has an Idempotency-Key.
async function exchange(url, options) {
  const started = Date.now();
  for (;;) {
    try {
      return await once(url, options, options.timeout - (Date.now() - started));
    } catch (error) {
      if (!error.reused) throw error;
    }
  }
}

function once(url, { method, headers, body, agent, now, signal }, timeout) {
  return new Promise((resolve, reject) => {
    const request = (url.protocol === "https:" ? https : http).request(url, { method, headers, agent });
    let answered = false;
    const timer = setTimeout(() => request.destroy(new Error("no answer in time")), Math.max(timeout, 0));
    const abort = () => request.destroy(new Error("aborted"));
    signal?.addEventListener("abort", abort, { once: true });
    const fail = (error) => {
      done();
      error.reused = request.reusedSocket && !answered && (error.code === "ECONNRESET" || error.code === "EPIPE");
      reject(error);
    };
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    };
    request.on("error", fail);
    request.on("response", (response) => {
      answered = true;
      const chunks = [];
      let size = 0;
      response.on("data", (chunk) => {
        size += chunk.length;
        if (size > MAX_ANSWER) request.destroy(new Error("the answer is too long"));
        else chunks.push(chunk);
      });
      response.on("error", fail);
      response.on("close", () => response.complete || fail(new Error("the answer ended early")));
      response.on("end", () => {
        done();
        const answer = { header: response.headers, body: Buffer.concat(chunks) };
        if (response.statusCode === 200) resolve(answer);
        else reject(readError(response, answer.body, now()));
      });
    });
    request.end(body);
    if (signal?.aborted) abort();
  });
}

// parse is the body as a JSON object, or null.
function parse(body) {
  try {
    const value = JSON.parse(body.toString("utf8"));
    return value !== null && typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}

function readError({ statusCode, statusMessage, headers }, body, now) {
  const answer = parse(body);
  const common = { status: statusCode, requestId: headers["x-request-id"], retryAfter: retryAfter(headers["retry-after"], now) };
  if (answer?.status !== "error") {
    return new ServiceError({ ...common, message: `the answer is not the service's own (${statusMessage})` });
  }
  return new ServiceError({
    ...common,
    code: answer.error_code,
    message: answer.message ?? "",
    requestId: answer.request_id ?? common.requestId,
    problems: problems(answer.errors),
    truncated: answer.errors_truncated === true,
  });
}

const isList = (list) => list === undefined || (Array.isArray(list) && list.every((entry) => entry !== null && typeof entry === "object"));

const problems = (list) =>
  (isList(list) ? list ?? [] : []).map(({ index = 0, error_code, field = "", message, hint = "" }) => ({ index, code: error_code, field, message, hint }));

const warnings = (list = []) =>
  list.map(({ index = 0, code, field = "", message }) => ({ index, code, field, message }));

// readReceipt is the receipt of a request with so many events.
function readReceipt({ header, body }, events, key) {
  const answer = parse(body);
  const shaped = typeof answer?.submission_id === "string" && typeof answer.received_at === "string";
  if (!shaped || !isList(answer.errors) || !isList(answer.warnings)) {
    throw new ServiceError({ status: 200, message: "the answer is no receipt; something between here and the service gave it" });
  }
  return {
    submissionId: answer.submission_id,
    receivedAt: new Date(answer.received_at),
    status: answer.status,
    accepted: answer.accepted ?? events,
    rejected: answer.rejected ?? 0,
    problems: problems(answer.errors),
    truncated: answer.errors_truncated === true,
    warnings: warnings(answer.warnings),
    replayed: header["idempotency-replayed"] === "true",
    key,
    first: 0,
  };
}

// readVerdict is the answer of POST /v1/events/validate.
function readVerdict({ body }) {
  const answer = parse(body);
  if (typeof answer?.valid !== "boolean" || !isList(answer.errors) || !isList(answer.warnings) || !isList(answer.events)) {
    throw new ServiceError({ status: 200, message: "the answer is no verdict; something between here and the service gave it" });
  }
  const { valid, accepted, rejected, errors, errors_truncated, events = [] } = answer;
  return {
    valid,
    accepted,
    rejected,
    problems: problems(errors),
    truncated: errors_truncated === true,
    warnings: warnings(answer.warnings),
    events: events.map(({ index, event, privacy, privacy_reasons, gpp }) => ({ index, event, privacy, privacyReasons: privacy_reasons, gpp })),
  };
}

module.exports = { exchange, parse, readReceipt, readVerdict };
