"use strict";

const { FILL_EVENTS, FILL_BYTES, MAX_BYTES, cut } = require("./batch.js");
const { BatchError, QueueError, QueueFullError, QueueClosedError } = require("./errors.js");

const KEPT_PROBLEMS = 100; // arbitrary: what one answer would list

class Queue {
  #client;
  #options;
  #waiting = []; // encoded events that are in no batch yet, oldest first
  #bytes = 0; // their size
  #held = 0; // size of everything taken and not settled
  #under = 0; // batches under way
  #timer = null; // runs while events wait: it keeps the process alive until they are sent
  #blocked = []; // callers of add that wait for memory
  #closing = false;
  #idle = []; // callers of flush and close
  #report = { taken: 0, accepted: 0, rejected: 0, unsent: 0, waiting: 0, warnings: 0, problems: [], lastError: undefined };

  constructor(client, { maxBytes = 32 * 1024 * 1024, flushEvery = 1000, parallel = 2, onFailure } = {}) {
    this.#client = client;
    this.#options = { maxBytes, flushEvery, parallel, onFailure };
  }

  async add(event, { signal } = {}) {
    const body = this.#encode(event);
    while (!this.#take(body)) {
      if (signal?.aborted) throw new QueueFullError();
      await new Promise((resolve) => {
        this.#blocked.push(resolve);
        signal?.addEventListener("abort", resolve, { once: true });
      });
    }
  }

  offer(event) {
    if (!this.#take(this.#encode(event))) throw new QueueFullError();
  }

  stats() {
    const r = this.#report;
    return { ...r, problems: [...r.problems], waiting: r.taken - r.accepted - r.rejected - r.unsent };
  }

  async flush() {
    this.#start(true);
    await this.#settled();
  }

  async close({ timeout } = {}) {
    this.#closing = true;
    this.#wakeAll(this.#blocked);
    this.#start(true);
    let timer;
    const late = new Promise((resolve) => {
      if (timeout !== undefined) timer = setTimeout(resolve, timeout);
    });
    await Promise.race([this.#settled(), late]);
    clearTimeout(timer);
    const report = this.stats();
    if (report.accepted !== report.taken) throw new QueueError(report);
    return report;
  }

  #encode(event) {
    const body = this.#client.encode(event);
    if (body.length > Math.min(this.#options.maxBytes, MAX_BYTES - 2)) {
      throw new RangeError(`the event is ${body.length} bytes, more than the queue or a request can hold`);
    }
    return body;
  }

  // #take says whether there was memory for the event.
  #take(body) {
    if (this.#closing) throw new QueueClosedError();
    if (this.#held + body.length > this.#options.maxBytes) return false;
    this.#waiting.push(body);
    this.#bytes += body.length;
    this.#held += body.length;
    this.#report.taken++;
    this.#start(false);
    return true;
  }

  get #full() {
    return this.#waiting.length >= FILL_EVENTS || this.#bytes >= FILL_BYTES;
  }

  // #start sends full batches, and others if all is set, while there are slots; then it sets the timer for the rest.
  #start(all) {
    while (this.#waiting.length > 0 && (all || this.#full) && this.#under < this.#options.parallel) {
      const batch = this.#waiting.splice(0, cut(this.#waiting, 0, FILL_EVENTS, FILL_BYTES));
      for (const body of batch) this.#bytes -= body.length;
      this.#under++;
      this.#send(batch);
    }
    if (this.#waiting.length === 0) {
      clearTimeout(this.#timer);
      this.#timer = null;
    } else {
      this.#timer ??= setTimeout(() => {
        this.#timer = null;
        this.#start(true);
      }, this.#options.flushEvery);
    }
  }

  async #send(batch) {
    let receipts, failure;
    try {
      receipts = await this.#client.sendEncoded(batch, { maxEvents: FILL_EVENTS });
    } catch (error) {
      failure = error instanceof BatchError ? error : new BatchError({ receipts: [], rejected: 0, problems: [], truncated: false, unsent: [{ from: 0, to: batch.length, error }] });
      receipts = failure.receipts;
    }
    this.#settle(batch, receipts, failure);
  }

  #settle(batch, receipts, failure) {
    const r = this.#report;
    for (const receipt of receipts) {
      r.accepted += receipt.accepted;
      r.warnings += receipt.warnings.length;
    }
    if (failure) {
      r.rejected += failure.rejected;
      r.problems.push(...failure.problems.slice(0, KEPT_PROBLEMS - r.problems.length));
      for (const { from, to, error } of failure.unsent) {
        r.unsent += to - from;
        r.lastError = error;
      }
    }
    for (const body of batch) this.#held -= body.length;
    this.#under--;
    this.#wakeAll(this.#blocked);
    this.#start(this.#closing || this.#idle.length > 0);
    if (this.#under === 0 && this.#waiting.length === 0) this.#wakeAll(this.#idle);
    if (failure) this.#options.onFailure?.({ events: batch.map((body) => body.toString("utf8")), error: failure });
  }

  #settled() {
    if (this.#under === 0 && this.#waiting.length === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  #wakeAll(list) {
    for (const wake of list.splice(0)) wake();
  }
}

module.exports = { Queue };
