// Sends an event and a batch with openapi-fetch and the types that openapi-typescript made.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

const { SLUICE_URL: baseUrl = "", SLUICE_API_KEY: key = "", EMAIL_SHA256: email = "" } = process.env;
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${key}` } });
const event: components["schemas"]["Event"] = {
  data_set_id: "shop",
  timestamp: Math.floor(Date.now() / 1000),
  event_type: "purchase",
  value: 49.5,
  currency_code: "EUR",
  identifiers: { email_sha256: email },
  custom_data: { order: "typescript", items: [1] },
};

const one = await client.POST("/v1/events", { body: event });
if (!one.data) throw new Error(JSON.stringify(one.error));
const { currency_code: _, ...bad } = event;
const batch = await client.POST("/v1/events/batch", { body: [event, bad], params: { header: { "Idempotency-Key": "typescript-1" } } });
const problem = batch.data?.errors?.[0];
if (!problem) throw new Error(JSON.stringify(batch.error));
const found = await client.GET("/v1/submissions/{submission_id}", {
  params: { path: { submission_id: one.data.submission_id }, query: { include: "events" } },
});
if (!found.data) throw new Error(JSON.stringify(found.error));
// @ts-expect-error not one of the event types
event.event_type = "Purchase";
console.log(one.data.status, problem.index, problem.error_code, found.data.accepted, found.data.events?.length);
