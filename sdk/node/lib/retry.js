"use strict";

const { ServiceError } = require("./errors.js");

const DEFAULTS = { base: 250, max: 20_000, attempt: 30_000, total: 120_000, budget: 50 };

// settings are the bounds of a request, in milliseconds. A member that is missing or 0 has its default; only the budget
// may be negative, which means that there is none.
function settings(retry = {}) {
  const out = { ...DEFAULTS };
  for (const name of Object.keys(DEFAULTS)) {
    const value = retry[name];
    if (value === undefined || value === 0) continue;
    if (!Number.isFinite(value) || (value < 0 && name !== "budget")) throw new TypeError(`retry.${name} is not a positive number`);
    out[name] = value;
  }
  return out;
}

// wait is the time before the next try, in milliseconds: full jitter on top of what the service asked for. Callers that
// got the same Retry-After must not come back in the same instant.
const wait = (retry, n, asked, random) => asked + random() * Math.min(retry.max, retry.base * 2 ** (n - 1));

// Budget is the bucket of retries that all requests of a Client share, counted in tenths.
class Budget {
  constructor(n) {
    this.max = n * 10;
    this.tenths = this.max;
  }

  take() {
    if (this.max < 0) return true;
    if (this.tenths < 10) return false;
    this.tenths -= 10;
    return true;
  }

  succeed() {
    this.tenths = Math.min(this.tenths + 1, this.max);
  }
}

// retryable says whether trying again may end better. Network errors may; a certificate that does not fit will not.
function retryable(error) {
  if (error instanceof ServiceError) {
    const { status, code } = error;
    // 200: a page of a proxy, or half an answer. The outcome is not known.
    return status === 200 || status === 408 || status === 429 || status >= 500 || (status === 409 && code === "IDEMPOTENCY_IN_PROGRESS");
  }
  if (error instanceof TypeError) return false; // a mistake in a program
  return !CERTIFICATE.test(error.code ?? "");
}

// The codes under which Node reports a certificate that it does not trust.
const CERTIFICATE = /CERT|SELF_SIGNED|UNABLE_TO_(GET_ISSUER|VERIFY_LEAF)|INVALID_CA|HOSTNAME_MISMATCH/;

// retryAfter reads the header in both its forms, seconds or a date, and gives milliseconds.
function retryAfter(header, now) {
  const text = (header ?? "").trim();
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1000;
  if (!/^[A-Z][a-z]{2,8}[, ]/.test(text)) return 0; // Date.parse takes much that is no HTTP date
  const at = Date.parse(text);
  return Number.isNaN(at) ? 0 : Math.max(0, at - now);
}

module.exports = { settings, wait, Budget, retryable, retryAfter };
