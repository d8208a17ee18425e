"use strict";

const { randomUUID } = require("node:crypto");
const http = require("node:http");
const https = require("node:https");
const { promisify } = require("node:util");
const zlib = require("node:zlib");
const { MAX_EVENTS, MAX_BYTES, encode, cut, join } = require("./batch.js");
const { ServiceError, GiveUpError, BatchError } = require("./errors.js");
const { exchange, parse, readReceipt, readVerdict } = require("./exchange.js");
const { readStats } = require("./stats.js");
const { settings, wait, Budget, retryable } = require("./retry.js");

const gzip = promisify(zlib.gzip);
const GZIP_OVER = 1024; // bytes from which compression is worth its header
const VERSION = require("../package.json").version;

class Client {
  #base;
  #key;
  #agent;
  #budget;
  #retry;
  #options;

  constructor({ url, key, datasetId = "", userAgent = "", gzip = true, plainHTTP = false, agent, headers, retry, now, sleep, random }) {
    this.#base = checkURL(url, plainHTTP);
    checkKey(key);
    this.#key = key;
    this.#retry = settings(retry);
    this.#budget = new Budget(this.#retry.budget);
    this.#agent = agent ?? new (this.#base.startsWith("https:") ? https : http).Agent({ keepAlive: true, maxSockets: 32 });
    this.#options = {
      datasetId,
      gzip,
      headers,
      userAgent: `${userAgent} sluice-client-node/${VERSION}`.trim(),
      now: now ?? Date.now,
      random: random ?? Math.random,
      sleep: sleep ?? pause,
    };
  }

  encode(event) {
    return encode(event, this.#options.datasetId);
  }

  async send(event, { key, signal } = {}) {
    return this.submit({ body: this.encode(event), events: 1, key, signal });
  }

  async sendBatch(events, { signal } = {}) {
    if (!Array.isArray(events)) throw new TypeError("sendBatch takes an array of events");
    const bodies = events.map((event, i) => {
      let body;
      try {
        body = this.encode(event);
      } catch (cause) {
        throw new TypeError(`event ${i} cannot be written as JSON: ${cause.message}`, { cause });
      }
      if (body.length + 2 > MAX_BYTES) throw new RangeError(`event ${i} is ${body.length} bytes, over the limit of a request`);
      return body;
    });
    return this.sendEncoded(bodies, { signal });
  }

  // sendEncoded sends events that are JSON already, in order, in batches within both limits.
  async sendEncoded(bodies, { maxEvents = MAX_EVENTS, maxBytes = MAX_BYTES, signal } = {}) {
    const receipts = [];
    const failed = { receipts, rejected: 0, problems: [], truncated: false, unsent: [] };
    const add = (rejected, problems, truncated, from) => {
      failed.rejected += rejected;
      failed.problems.push(...problems.map((p) => ({ ...p, index: p.index + from })));
      failed.truncated ||= truncated;
    };
    for (let from = 0; from < bodies.length; ) {
      const to = cut(bodies, from, maxEvents, maxBytes);
      try {
        const receipt = await this.submit({ batch: true, body: join(bodies.slice(from, to)), events: to - from, signal });
        add(receipt.rejected, receipt.problems, receipt.truncated, from);
        receipt.first = from;
        for (const entry of [...receipt.problems, ...receipt.warnings]) entry.index += from;
        receipts.push(receipt);
      } catch (error) {
        if (error instanceof ServiceError && error.status === 400 && error.code && error.code !== "MALFORMED_JSON") {
          add(to - from, error.problems, error.truncated, from);
        } else {
          failed.unsent.push({ from, to: bodies.length, error });
          break; // the rest would meet the same
        }
      }
      from = to;
    }
    if (failed.rejected > 0 || failed.unsent.length > 0) throw new BatchError(failed);
    return receipts;
  }

  async submit({ body, batch = false, events = 1, key = randomUUID(), strict = false, signal }) {
    const data = Buffer.from(body);
    if (data.length > MAX_BYTES) throw new RangeError(`the body is ${data.length} bytes, over the limit of ${MAX_BYTES}`);
    const headers = { "Content-Type": "application/json", "Idempotency-Key": key };
    let wire = data;
    if (this.#options.gzip && data.length > GZIP_OVER) {
      wire = await gzip(data, { level: zlib.constants.Z_BEST_SPEED });
      headers["Content-Encoding"] = "gzip";
    }
    if (strict) headers.Prefer = "handling=strict";
    const path = batch ? "/v1/events/batch" : "/v1/events";
    return this.#repeat(key, signal, async (timeout) =>
      readReceipt(await this.#exchange("POST", path, headers, wire, timeout, signal), events, key),
    );
  }

  async validate(events, { signal } = {}) {
    const body = Array.isArray(events) ? join(events.map((event) => this.encode(event))) : this.encode(events);
    if (body.length > MAX_BYTES) throw new RangeError(`the body is ${body.length} bytes, over the limit of ${MAX_BYTES}`);
    const headers = { "Content-Type": "application/json" };
    return this.#repeat("", signal, async (timeout) =>
      readVerdict(await this.#exchange("POST", "/v1/events/validate", headers, body, timeout, signal)),
    );
  }

  async status(submissionId, { events = false, signal } = {}) {
    const path = `/v1/submissions/${encodeURIComponent(submissionId)}${events ? "?include=events" : ""}`;
    return this.#repeat("", signal, async (timeout) => {
      const found = parse((await this.#exchange("GET", path, {}, undefined, timeout, signal)).body);
      if (typeof found?.submission_id !== "string") {
        throw new ServiceError({ status: 200, message: "the answer is no submission; something between here and the service gave it" });
      }
      return readSubmission(found);
    });
  }

  async stats({ window, by, signal } = {}) {
    const query = new URLSearchParams({ ...(by && { by }), ...(window && { window }) }).toString();
    const path = query ? `/v1/stats?${query}` : "/v1/stats";
    return this.#repeat("", signal, async (timeout) => readStats(parse((await this.#exchange("GET", path, {}, undefined, timeout, signal)).body)));
  }

  close() {
    this.#agent.destroy();
  }

  #exchange(method, path, headers, body, timeout, signal) {
    const all = {
      ...this.#options.headers?.(),
      ...headers,
      Accept: "application/json",
      Authorization: `Bearer ${this.#key}`,
      "User-Agent": this.#options.userAgent,
    };
    if (body !== undefined) all["Content-Length"] = body.length;
    const { now } = this.#options;
    return exchange(new URL(this.#base + path), { method, headers: all, body, agent: this.#agent, now, signal, timeout });
  }

  // #repeat calls attempt until it succeeds, fails for good, or a bound is met.
  async #repeat(key, signal, attempt) {
    const retry = this.#retry;
    const { sleep, random } = this.#options;
    const deadline = performance.now() + retry.total;
    for (let n = 1; ; n++) {
      let cause;
      try {
        const result = await attempt(Math.min(retry.attempt, deadline - performance.now()));
        this.#budget.succeed();
        return result;
      } catch (error) {
        cause = error;
      }
      const giveUp = (reason) => new GiveUpError({ key, attempts: n, reason, cause });
      if (signal?.aborted) throw giveUp("the caller aborted it");
      if (!retryable(cause)) throw cause;
      if (performance.now() >= deadline) throw giveUp("the time for it was up");
      if (!this.#budget.take()) throw giveUp("the retry budget is used up");
      const ms = wait(retry, n, cause.retryAfter ?? 0, random);
      if (performance.now() + ms > deadline) throw giveUp("no time was left for another");
      await sleep(ms, signal);
      if (signal?.aborted) throw giveUp("the caller aborted it");
    }
  }
}

function checkURL(text, plainHTTP) {
  let url;
  try {
    url = new URL(text);
  } catch {
    throw new TypeError("the address of the service is not an http or https URL");
  }
  if (url.protocol !== "https:" && url.protocol !== "http:") throw new TypeError("the address of the service is not an http or https URL");
  if (url.username || url.password || url.search || url.hash) throw new TypeError("the address of the service has a user, a query or a fragment");
  if (url.protocol === "http:" && !plainHTTP && !/^(localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname)) {
    throw new TypeError("plain http would show the key to the network; use https");
  }
  return url.href.replace(/\/+$/, "");
}

function checkKey(key) {
  if (typeof key !== "string" || key === "") throw new TypeError("the key is empty");
  if (!/^[!-~]+$/.test(key)) throw new TypeError("the key has a space, a line break or a character outside ASCII");
}

// pause waits, or until the signal aborts.
function pause(ms, signal) {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener("abort", end, { once: true });
    if (signal?.aborted) end();
  });
}

function readSubmission(s) {
  return {
    submissionId: s.submission_id,
    datasetId: s.data_set_id,
    receivedAt: new Date(s.received_at),
    status: s.status,
    accepted: s.accepted,
    rejected: s.rejected,
    late: s.late,
    restricted: s.restricted,
    suppressed: s.suppressed,
    events: s.events?.map((e) => ({
      index: e.index,
      eventId: e.event_id,
      eventType: e.event_type,
      late: e.late,
      privacy: e.privacy,
      optimizationEligible: e.optimization_eligible,
    })),
  };
}

module.exports = { Client };
