// Holds the answers of the catalog against the shapes that the Iceberg REST protocol gives them. ajv does the comparing. The shapes
// are written from the protocol: names, types and what is required. A member that the protocol does not name is an error.
const Ajv = require("ajv/dist/2020.js").default;
const [base, token, key] = [process.env.CATALOG_URL, process.env.CATALOG_TOKEN, process.env.SENDER_KEY];

const int = { type: "integer" };
const text = { type: "string" };
const texts = { type: "object", additionalProperties: text };
const list = (items, more) => ({ type: "array", items, ...more });
const object = (required, optional = {}) => ({
  type: "object",
  properties: { ...required, ...optional },
  required: Object.keys(required),
  additionalProperties: false,
});
const names = list(text, { minItems: 1 });

const type = {
  anyOf: [
    { type: "string", pattern: "^(boolean|int|long|float|double|date|time|timestamp|timestamptz|string|uuid|binary|fixed\\[\\d+\\]|decimal\\(\\d+, ?\\d+\\))$" },
    object({ type: { const: "list" }, "element-id": int, element: { $ref: "#/$defs/type" }, "element-required": { type: "boolean" } }),
    object({ type: { const: "struct" }, fields: list({ $ref: "#/$defs/field" }) }),
  ],
};
const field = object({ id: int, name: text, type: { $ref: "#/$defs/type" }, required: { type: "boolean" } }, { doc: text });
const $defs = { type, field };

const schema = object({ type: { const: "struct" }, fields: list({ $ref: "#/$defs/field" }, { minItems: 1 }) }, { "schema-id": int, "identifier-field-ids": list(int) });
const spec = object({ fields: list(object({ "source-id": int, name: text, transform: text }, { "field-id": int })) }, { "spec-id": int });
const order = object({
  "order-id": int,
  fields: list(object({ "source-id": int, transform: text, direction: { enum: ["asc", "desc"] }, "null-order": { enum: ["nulls-first", "nulls-last"] } })),
});
const summary = {
  type: "object",
  properties: { operation: { enum: ["append", "replace", "overwrite", "delete"] } },
  required: ["operation"],
  additionalProperties: text,
};
const snapshot = object(
  { "snapshot-id": int, "timestamp-ms": int, "manifest-list": text, summary, "sequence-number": int },
  { "parent-snapshot-id": int, "schema-id": int },
);
const reference = object(
  { type: { enum: ["tag", "branch"] }, "snapshot-id": int },
  { "max-ref-age-ms": int, "max-snapshot-age-ms": int, "min-snapshots-to-keep": int },
);
const metadata = object(
  {
    "format-version": { const: 2 }, "table-uuid": { type: "string", pattern: "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$" }, location: text, "last-updated-ms": int,
    "last-column-id": int, schemas: list(schema, { minItems: 1 }), "current-schema-id": int, "partition-specs": list(spec, { minItems: 1 }), "default-spec-id": int,
    "last-partition-id": int, "sort-orders": list(order, { minItems: 1 }), "default-sort-order-id": int, "last-sequence-number": int,
  },
  {
    properties: texts, "current-snapshot-id": int, snapshots: list(snapshot), refs: { type: "object", additionalProperties: reference },
    "snapshot-log": list(object({ "snapshot-id": int, "timestamp-ms": int })), "metadata-log": list(object({ "metadata-file": text, "timestamp-ms": int })),
    statistics: list({ type: "object" }), "partition-statistics": list({ type: "object" }),
  },
);
const shapes = {
  config: object({ defaults: texts, overrides: texts, endpoints: list({ type: "string", pattern: "^(GET|HEAD|POST|DELETE) /v1/" }, { minItems: 1, uniqueItems: true }) }, { "idempotency-key-lifetime": text }),
  namespaces: object({ namespaces: list(names, { uniqueItems: true }) }, { "next-page-token": { type: ["string", "null"] } }),
  namespace: object({ namespace: names }, { properties: { anyOf: [texts, { type: "null" }] } }),
  tables: object({ identifiers: list(object({ namespace: names, name: text }), { uniqueItems: true }) }, { "next-page-token": { type: ["string", "null"] } }),
  table: object({ metadata }, { "metadata-location": text, config: texts, "storage-credentials": list({ type: "object" }, { maxItems: 0 }) }),
  error: object({ error: object({ message: text, type: text, code: { type: "integer", minimum: 400, maximum: 600 } }, { stack: list(text) }) }),
  token: object({ access_token: text, token_type: { enum: ["bearer", "mac", "N_A"] } }, { expires_in: int, issued_token_type: text, refresh_token: text, scope: text }),
  tokenError: object({ error: { enum: ["invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope"] } }, { error_description: text, error_uri: text }),
};
const ajv = new Ajv({ strict: true, strictTypes: false, allErrors: true });
const checks = Object.fromEntries(Object.entries(shapes).map(([name, shape]) => [name, ajv.compile({ $defs, ...shape })]));

async function ask(name, status, method, path, { auth = token, body, form } = {}) {
  const headers = auth ? { Authorization: `Bearer ${auth}` } : {};
  if (form) body = new URLSearchParams(form);
  const answer = await fetch(base + path, { method, headers, body });
  const content = await answer.text();
  const where = `${method} ${path}: ${answer.status}`;
  if (answer.status !== status) throw new Error(`${where}, want ${status}: ${content}`);
  if (!name) {
    if (content !== "") throw new Error(`${where}: a body`);
    return undefined;
  }
  if (!/^application\/json\b/.test(answer.headers.get("content-type"))) throw new Error(`${where}: ${answer.headers.get("content-type")}`);
  const value = JSON.parse(content);
  if (!checks[name](value)) throw new Error(`${where}: ${JSON.stringify(checks[name].errors)}`);
  if (name === "error" && value.error.code !== status) throw new Error(`${where}: the code in the body is ${value.error.code}`);
  return value;
}

async function main() {
  await ask("config", 200, "GET", "/v1/config");
  await ask("config", 200, "GET", "/v1/config?warehouse=sluice");
  await ask("namespaces", 200, "GET", "/v1/namespaces");
  await ask("namespaces", 200, "GET", "/v1/namespaces?parent=sluice");
  await ask("namespace", 200, "GET", "/v1/namespaces/sluice");
  await ask("", 204, "HEAD", "/v1/namespaces/sluice");
  const { identifiers } = await ask("tables", 200, "GET", "/v1/namespaces/sluice/tables");
  for (const { name } of identifiers) {
    for (const query of ["", "?snapshots=all", "?snapshots=refs"]) {
      const { metadata } = await ask("table", 200, "GET", `/v1/namespaces/sluice/tables/${name}${query}`);
      const known = (metadata.snapshots ?? []).some((s) => s["snapshot-id"] === metadata["current-snapshot-id"]);
      const empty = name === "days" && (metadata.snapshots ?? []).length === 0; // no day is over yet
      if (!known && !empty) throw new Error(`${name}${query}: the current snapshot is not listed`);
      for (const [at, among] of [["current-schema-id", metadata.schemas.map((s) => s["schema-id"])], ["default-spec-id", metadata["partition-specs"].map((s) => s["spec-id"])], ["default-sort-order-id", metadata["sort-orders"].map((s) => s["order-id"])]]) {
        if (!among.includes(metadata[at])) throw new Error(`${name}${query}: ${at} is not listed`);
      }
    }
    await ask("", 204, "HEAD", `/v1/namespaces/sluice/tables/${name}`);
  }
  await ask("", 204, "POST", "/v1/namespaces/sluice/tables/events/metrics", { body: "{}" });
  for (const [status, method, path] of [
    [404, "GET", "/v1/namespaces/nothing"], [404, "GET", "/v1/namespaces/sluice/tables/nothing"], [404, "GET", "/v1/namespaces/sluice/views/events"], [404, "GET", "/v1/nothing"],
    [400, "GET", "/v1/namespaces/sluice/tables/events?snapshots=some"], [406, "POST", "/v1/namespaces"], [406, "DELETE", "/v1/namespaces/sluice/tables/events"],
    [406, "POST", "/v1/namespaces/sluice/tables/events"], [406, "POST", "/v1/transactions/commit"], [405, "PUT", "/v1/config"],
  ]) {
    await ask("error", status, method, path);
  }
  await ask("", 404, "HEAD", "/v1/namespaces/sluice/tables/nothing");
  await ask("error", 401, "GET", "/v1/config", { auth: key });
  const credentials = { grant_type: "client_credentials", client_id: "analyst", client_secret: token, scope: "catalog" };
  const { access_token } = await ask("token", 200, "POST", "/v1/oauth/tokens", { auth: "", form: credentials });
  await ask("config", 200, "GET", "/v1/config", { auth: access_token });
  await ask("tokenError", 401, "POST", "/v1/oauth/tokens", { auth: "", form: { ...credentials, client_secret: "wrong" } });
  await ask("tokenError", 400, "POST", "/v1/oauth/tokens", { auth: "", form: { ...credentials, grant_type: "password" } });

  // The shapes themselves find what is wrong.
  const good = await ask("table", 200, "GET", "/v1/namespaces/sluice/tables/events");
  for (const [what, spoil] of Object.entries({
    "an id that is text": (t) => (t.metadata["current-snapshot-id"] = "1"), "no location": (t) => delete t.metadata.location, "a foreign member": (t) => (t.metadata.extra = 1),
    "a field without id": (t) => delete t.metadata.schemas[0].fields[0].id, "an unknown type": (t) => (t.metadata.schemas[0].fields[0].type = "varchar"),
    "credentials": (t) => (t["storage-credentials"] = [{}]), "a config that is not text": (t) => (t.config = { a: 1 }),
  })) {
    const bad = structuredClone(good);
    spoil(bad);
    if (checks.table(bad)) throw new Error(`the shapes accept ${what}`);
  }
  console.log("ok");
}

main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
