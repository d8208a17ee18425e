import { createHash } from "node:crypto";

const address = " Test@Example.com ".trim().toLowerCase();
console.log(createHash("sha256").update(address).digest("hex"));
