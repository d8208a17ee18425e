// Compiles the JSON Schema of events with ajv in strict mode, and holds a good and a bad event against it.
const Ajv = require("ajv/dist/2020.js").default;
const schema = JSON.parse(require("node:fs").readFileSync(process.argv[2], "utf8"));
const validate = new Ajv({ strict: true, allErrors: true }).compile(schema);
const event = {
  data_set_id: "shop",
  timestamp: 1794699600,
  event_type: "purchase",
  value: 1,
  currency_code: "EUR",
  identifiers: { ifa: "97987bca-ae59-4c7d-94ba-ee4f19ab8c21" },
  custom_data: { a: [{ b: null }], c: true },
};
if (!validate(event)) throw new Error(JSON.stringify(validate.errors));
for (const bad of [{ currency_code: null }, { identifiers: {} }, { custom_data: { a: [{ b: [] }] } }, { event_type: "Purchase" }]) {
  if (validate({ ...event, ...bad })) throw new Error(`accepted with ${JSON.stringify(bad)}`);
}
console.log("ok");
