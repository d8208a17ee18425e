"use strict";

const { createHash } = require("node:crypto");
const net = require("node:net");
const { HashError } = require("./errors.js");

// White space as the service and the other SDKs define it. String.prototype.trim has another list.
const SPACE = "\\t\\n\\v\\f\\r \\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const AROUND = new RegExp(`^[${SPACE}]+|[${SPACE}]+$`, "g");
// White space, control characters, U+FFFD and lone surrogates: none of them is part of an address.
const BAD = new RegExp(`[${SPACE}\\u0000-\\u001f\\u007f-\\u009f\\ufffd]|\\p{Surrogate}`, "u");
const DIGEST = /^[0-9a-f]{64}$/;
const IPV4 = /^(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)){3}$/;

const trim = (text) => text.replace(AROUND, "");

// lower maps each letter to one letter, so that no letter depends on its neighbours.
const lower = (text) => Array.from(text, (letter) => Array.from(letter.toLowerCase())[0]).join("");

const digest = (text) => createHash("sha256").update(text, "utf8").digest("hex");

function text(value) {
  if (typeof value !== "string") throw new TypeError("the value to hash is not a string");
  return trim(value);
}

function hashEmail(address) {
  const s = lower(text(address));
  if (DIGEST.test(s)) throw new HashError("ALREADY_HASHED");
  const parts = s.split("@");
  if (parts.length !== 2 || parts[0] === "" || parts[1] === "" || BAD.test(s)) throw new HashError("NOT_EMAIL");
  return digest(s);
}

function hashIPv4(address) {
  const s = text(address);
  if (DIGEST.test(s.toLowerCase())) throw new HashError("ALREADY_HASHED");
  const dotted = IPV4.test(s) ? s : mapped(s);
  if (dotted === null) throw new HashError("NOT_IPV4");
  return digest(dotted);
}

// mapped gives the IPv4 address that is written inside an IPv6 address (::ffff:192.0.2.1), or null.
function mapped(s) {
  if (!net.isIPv6(s)) return null;
  const address = s.split("%")[0];
  const tail = address.slice(address.lastIndexOf(":") + 1);
  let hex = address;
  if (tail.includes(".")) {
    if (!IPV4.test(tail)) return null;
    const [a, b, c, d] = tail.split(".").map(Number);
    hex = address.slice(0, -tail.length) + (a * 256 + b).toString(16) + ":" + (c * 256 + d).toString(16);
  }
  const [left, right] = hex.split("::").map((half) => (half === "" ? [] : half.split(":")));
  const fields = right === undefined ? left : [...left, ...Array(8 - left.length - right.length).fill("0"), ...right];
  const words = fields.map((field) => parseInt(field, 16));
  if (words.slice(0, 5).some((word) => word !== 0) || words[5] !== 0xffff) return null;
  return [words[6] >> 8, words[6] & 255, words[7] >> 8, words[7] & 255].join(".");
}

module.exports = { hashEmail, hashIPv4 };
