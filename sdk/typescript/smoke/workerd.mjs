// Plays smoke.mjs in workerd, the runtime of Workers: `workerd.mjs PATH_OF_WORKERD`.
//
// workerd resolves no packages, so each module is listed under the name by which it is imported.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const [workerd] = process.argv.slice(2);
const root = dirname(dirname(fileURLToPath(import.meta.url)));
const { imports, exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

const modules = { "smoke/smoke.mjs": readFileSync(join(root, "smoke/smoke.mjs"), "utf8") };
for (const name of readdirSync(join(root, "dist"), { recursive: true })) {
  if (name.endsWith(".js") && !/(^spool\/|node\.js$)/.test(name)) {
    modules[`dist/${name}`] = readFileSync(join(root, "dist", name), "utf8");
  }
}
for (const [name, { workerd: path }] of Object.entries(imports)) {
  modules[`dist/${name}`] = `export * from ".${path.replace("./dist", "")}";`;
}
for (const [name, target] of Object.entries(exports)) {
  if (!target.default) continue;
  modules[`smoke/${name.replace(".", "receipts-client")}`] = `export * from "/${target.default.slice(2)}";`;
}
modules["worker.mjs"] = `
  import { smoke } from "/smoke/smoke.mjs";
  export default { async test() { console.log(await smoke()); } };`;

const names = ["worker.mjs", ...Object.keys(modules).filter((name) => name !== "worker.mjs")];
const list = names.map((name) => `(name = "${name}", esModule = ${JSON.stringify(modules[name])})`);
const config = `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (services = [(name = "main", worker = (
  compatibilityDate = "2026-01-01", modules = [\n${list.join(",\n")}\n])) ]);`;
const folder = mkdtempSync(join(tmpdir(), "receipts-client-"));
writeFileSync(join(folder, "smoke.capnp"), config);
try {
  execFileSync(workerd, ["test", join(folder, "smoke.capnp")], { stdio: "inherit" });
} finally {
  rmSync(folder, { recursive: true });
}
