"use strict";

const { Client } = require("./lib/client.js");
const { Queue } = require("./lib/queue.js");
const { hashEmail, hashIPv4 } = require("./lib/hash.js");
const errors = require("./lib/errors.js");
const { MAX_EVENTS, MAX_BYTES, FILL_EVENTS, FILL_BYTES } = require("./lib/batch.js");

module.exports = { Client, Queue, hashEmail, hashIPv4, ...errors, MAX_EVENTS, MAX_BYTES, FILL_EVENTS, FILL_BYTES };
