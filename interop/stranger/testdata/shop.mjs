// Sends orders with the Node SDK and prints the submission ids, one a line: node shop.mjs ORDER…
import { Client, hashEmail } from "sluice-client";

const client = new Client({ url: process.env.SLUICE_URL, key: process.env.SLUICE_API_KEY });
for (const order of process.argv.slice(2)) {
  const receipt = await client.send({
    data_set_id: "shop",
    timestamp: Math.floor(Date.now() / 1000),
    event_type: "purchase",
    value: 9.99,
    currency_code: "EUR",
    identifiers: { email_sha256: hashEmail("jane@example.com") },
    custom_data: { order },
  });
  console.log(receipt.submissionId);
}
