"use strict";

const { ServiceError } = require("./errors.js");

// Members of the answer that are times.
const TIMES = new Set(["from", "to", "first_seen", "last_seen", "counted_at", "last_accepted_hour", "created_at", "ends_at"]);

// camel is a member's name in the spelling of this package.
const camel = (name) => (name === "data_set_id" ? "datasetId" : name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase()));

// Members whose own members are names that were sent.
const MAPS = new Set(["by_code", "value", "refunds"]);

function convert(value, name) {
  if (Array.isArray(value)) return value.map((entry) => convert(entry));
  if (MAPS.has(name) || (name === "events" && typeof value === "object")) return value;
  if (value !== null && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([k, v]) => [camel(k), convert(v, k)]));
  return TIMES.has(name) ? new Date(value) : value;
}

// readStats is the answer of GET /v1/stats, with names in camelCase and times as Date.
function readStats(answer) {
  const shaped = typeof answer?.data_set_id === "string" && typeof answer.accepted === "number" && Array.isArray(answer.rejections);
  if (!shaped) throw new ServiceError({ status: 200, message: "the answer has no numbers; something between here and the service gave it" });
  return convert(answer);
}

module.exports = { readStats };
