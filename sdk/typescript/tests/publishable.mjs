// Refuses to publish while package.json names no real address (docs/releases.md).

import { readFileSync } from "node:fs";

const { homepage } = JSON.parse(readFileSync("package.json", "utf8"));
if (new URL(homepage).hostname.endsWith("example.com")) {
  console.error(`package.json: write the repository's address instead of ${homepage}`);
  process.exit(1);
}
