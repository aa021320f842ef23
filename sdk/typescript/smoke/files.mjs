// The smoke test in a runtime with files.

import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { smoke } from "./smoke.mjs";

const folder = mkdtempSync(join(tmpdir(), "receipts-client-"));
console.log(await smoke(undefined));
console.log(await smoke(folder));
if (readdirSync(folder).length) throw new Error("the spool isn't empty");
rmSync(folder, { recursive: true });
