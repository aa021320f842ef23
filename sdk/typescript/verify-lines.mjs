// Verifies receipts, one a line; ends with 1 at the first that isn't good.
import { createInterface } from "node:readline";

import { Webhook } from "receipts-client";

const webhook = new Webhook();
for await (const line of createInterface({ input: process.stdin })) {
  await webhook.verify(line);
}
