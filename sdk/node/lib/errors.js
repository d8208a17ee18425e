"use strict";

// No error holds a value of an event, nor the key.

const HASH_MESSAGES = {
  ALREADY_HASHED: "the value is 64 hex digits, a hash already: hashing it again would match nobody",
  NOT_EMAIL: "the value is no e-mail address",
  NOT_IPV4: "the value is no IPv4 address",
};

const SHOWN = 5; // problems that an error's text lists; arbitrary: a screenful

class HashError extends Error {
  constructor(code) {
    super(HASH_MESSAGES[code]);
    this.name = "HashError";
    this.code = code;
  }
}

class ServiceError extends Error {
  constructor({ status, code = "", message, requestId = "", problems = [], truncated = false, retryAfter = 0 }) {
    super(
      `${status}${code && " " + code}: ${message}${requestId && ` (request id ${requestId})`}` +
        (problems.length === 1 && problems[0].message === message
          ? (problems[0].field && ` At ${problems[0].field}.`) + (problems[0].hint && " " + problems[0].hint)
          : listed(problems, truncated)),
    );
    this.name = "ServiceError";
    Object.assign(this, { status, code, requestId, problems, truncated, retryAfter });
  }

  get keyRejected() {
    return this.status === 401 || this.status === 403;
  }
}

class GiveUpError extends Error {
  constructor({ key, attempts, reason, cause }) {
    super(`gave up after ${attempts} ${attempts === 1 ? "try" : "tries"}, ${reason}: ${cause.message}`, { cause });
    this.name = "GiveUpError";
    Object.assign(this, { key, attempts, reason });
  }
}

class BatchError extends Error {
  constructor({ receipts, rejected, problems, truncated, unsent }) {
    const parts = unsent.map((u) => `events ${u.from} to ${u.to - 1} not confirmed: ${u.error.message}`);
    if (rejected > 0) parts.unshift(`${rejected} ${rejected === 1 ? "event" : "events"} rejected`);
    super(parts.join("; ") + listed(problems, truncated), { cause: unsent[0]?.error });
    this.name = "BatchError";
    Object.assign(this, { receipts, rejected, problems, truncated, unsent });
  }
}

class QueueError extends Error {
  constructor(report) {
    super(
      `of ${report.taken} events ${report.accepted} were accepted, ${report.rejected} rejected, ` +
        `${report.unsent} not confirmed, ${report.waiting} still wait`,
      { cause: report.lastError },
    );
    this.name = "QueueError";
    this.report = report;
  }
}

class QueueFullError extends Error {
  constructor() {
    super("the queue is full");
    this.name = "QueueFullError";
  }
}

class QueueClosedError extends Error {
  constructor() {
    super("the queue is closed");
    this.name = "QueueClosedError";
  }
}

function listed(problems, truncated) {
  const lines = problems.slice(0, SHOWN).map(
    (p) => `\n  event ${p.index}: ${p.code}${p.field && " at " + p.field}: ${p.message}${p.hint && " " + p.hint}`,
  );
  const more = problems.length - lines.length;
  if (more > 0) lines.push(`\n  and ${truncated ? "over " : ""}${more} more problems`);
  return lines.join("");
}

module.exports = { HashError, ServiceError, GiveUpError, BatchError, QueueError, QueueFullError, QueueClosedError };
