"use strict";

// The limits of one request. The first two are the service's, the others its advice.
const MAX_EVENTS = 1000; // events in a batch
const MAX_BYTES = 5 * 1024 * 1024; // bytes of a body, before compression
const FILL_EVENTS = 500; // events a Queue puts into one batch
const FILL_BYTES = 1_000_000; // bytes after which a Queue closes a batch

// encode is the JSON of an event as bytes, with the client's dataset where the event names none.
function encode(event, datasetId) {
  if (event === null || event === undefined) throw new TypeError(`an event is ${event}`);
  if (typeof event !== "object" || Array.isArray(event)) throw new TypeError("an event is not an object");
  const wire = { ...event };
  if (datasetId && (wire.data_set_id ?? "") === "") wire.data_set_id = datasetId;
  if (wire.timestamp instanceof Date) wire.timestamp = seconds(wire.timestamp);
  return Buffer.from(wellFormed(JSON.stringify(wire, finite)), "utf8");
}

function seconds(date) {
  const ms = date.getTime();
  if (Number.isNaN(ms)) throw new TypeError("the timestamp is an invalid Date");
  return Math.floor(ms / 1000);
}

// finite rejects what JSON.stringify would turn into null, which the service would take for an absent member.
function finite(key, value) {
  if (typeof value === "number" && !Number.isFinite(value)) throw new TypeError("an event has a number that is not finite");
  return value;
}

// wellFormed replaces halves of surrogate pairs, which JSON.stringify escapes. The service would reject the whole batch.
const wellFormed = (json) =>
  json.includes("\\ud") ? json.replace(/(?<=(?:^|[^\\])(?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/g, "\ufffd") : json;

// cut finds the end of the batch that begins at from: never empty, within both limits.
function cut(bodies, from, maxEvents, maxBytes) {
  let size = 2; // the brackets
  for (let to = from; to < bodies.length; to++) {
    size += bodies[to].length;
    if (to > from) {
      size++; // the comma
      if (to - from === maxEvents || size > maxBytes) return to;
    }
  }
  return bodies.length;
}

const OPEN = Buffer.from("[");
const COMMA = Buffer.from(",");
const CLOSE = Buffer.from("]");

// join is the array of the events.
function join(bodies) {
  const parts = [];
  for (const body of bodies) parts.push(parts.length === 0 ? OPEN : COMMA, body);
  parts.push(CLOSE);
  return Buffer.concat(parts);
}

module.exports = { MAX_EVENTS, MAX_BYTES, FILL_EVENTS, FILL_BYTES, encode, cut, join };
