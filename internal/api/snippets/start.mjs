import { randomUUID } from "node:crypto";

const body = JSON.stringify({
  data_set_id: "shop",
  timestamp: Math.floor(Date.now() / 1000),
  event_type: "purchase",
  identifiers: { email_sha256: "973dfe463ec85785f5f95af5ba3906eedb2d931c24e69824a89ea65dba4e813b" },
  value: 129.95,
  currency_code: "USD",
});
const headers = {
  Authorization: `Bearer ${process.env.SLUICE_API_KEY}`,
  "Content-Type": "application/json",
  "Idempotency-Key": randomUUID(), // the same with every try
};
for (let attempt = 0; ; attempt++) {
  const answer = await fetch(`${process.env.SLUICE_URL}/v1/events`, { method: "POST", headers, body }).catch(() => null);
  const again = !answer || answer.status === 429 || answer.status >= 500;
  if (!again || attempt === 5) {
    console.log(answer?.status, await answer?.text());
    process.exitCode = answer?.ok ? 0 : 1;
    break;
  }
  const seconds = Math.max(Math.random() * 2 ** attempt, Number(answer?.headers.get("Retry-After")));
  await new Promise((done) => setTimeout(done, 1000 * seconds));
}
