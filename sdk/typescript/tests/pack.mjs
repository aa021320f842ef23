// Installs the packed package into an empty folder, and runs the README's first example and its
// other blocks' types there, without anybody's types but the package's own.

import { execFileSync } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { FakeGateway } from "receipts-client/testing";

const execFile = promisify((await import("node:child_process")).execFile);
const root = dirname(dirname(fileURLToPath(import.meta.url)));
const tsc = join(root, "node_modules/typescript/bin/tsc");
const folder = mkdtempSync(join(tmpdir(), "receipts-client-"));
const inFolder = { cwd: folder, encoding: "utf8" };

try {
  const packed = JSON.parse(
    execFileSync("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", folder], {
      cwd: root,
      encoding: "utf8",
    }),
  );
  const [{ filename, files }] = Object.values(packed);
  checkFiles(files.map(({ path }) => path));
  writeFileSync(join(folder, "package.json"), '{"private": true, "type": "module"}');
  execFileSync("npm", ["install", "--offline", "--no-audit", "--no-fund", filename], inFolder);
  checkTypes();
  await runExample();
  console.log(`${filename}: ${files.length} files, installed and imported`);
} finally {
  rmSync(folder, { recursive: true });
}

function checkFiles(paths) {
  for (const path of [
    "README.md",
    "CHANGELOG.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "dist/index.js",
    "dist/index.d.ts",
  ]) {
    if (!paths.includes(path)) throw new Error(`${path} isn't packed`);
  }
  const foreign = paths.filter(
    (path) =>
      !/^(dist\/.*\.(js|d\.ts)|README\.md|CHANGELOG\.md|LICENSE-.*|package\.json)$/.test(path),
  );
  if (foreign.length) throw new Error(`packed, too: ${foreign}`);
}

function blocks() {
  const readme = readFileSync(join(root, "README.md"), "utf8");
  return [...readme.matchAll(/```ts\n(.*?)```/gs)].map(([, text]) => text);
}

function checkTypes() {
  const names = blocks().map((text, index) => {
    const name = `block-${index}.ts`;
    writeFileSync(join(folder, name), text);
    return name;
  });
  const runtime = "declare const process: { env: Record<string, string | undefined> };\n";
  writeFileSync(
    join(folder, "runtime.d.ts"),
    `${runtime}declare const console: { log(...data: unknown[]): void };\n`,
  );
  // No DOM and no Node: neither is needed for the package's types.
  const compilerOptions = {
    lib: ["es2022"],
    types: [],
    strict: true,
    module: "nodenext",
    target: "es2022",
  };
  const files = ["runtime.d.ts", ...names];
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files }));
  try {
    execFileSync(process.execPath, [tsc, "-p", "."], inFolder);
  } catch (error) {
    throw new Error(`the README's blocks have wrong types:\n${error.stdout}`);
  }
}

async function runExample() {
  const gateway = new FakeGateway();
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray());
    const headers = { "Content-Encoding": request.headers["content-encoding"] };
    const answer = await gateway.fetch(`http://gateway.invalid${request.url}`, { headers, body });
    response.writeHead(answer.status).end(await answer.text());
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { privateKey } = generateKeyPairSync("ed25519");
  writeFileSync(join(folder, "client.key"), privateKey.export({ type: "pkcs8", format: "pem" }));
  const example = readFileSync(join(folder, "block-0.js"), "utf8");
  const url = `http://127.0.0.1:${server.address().port}`;
  writeFileSync(join(folder, "example.js"), example.replace("http://127.0.0.1:8080", url));
  await execFile(process.execPath, ["example.js"], inFolder);
  server.closeAllConnections();
  server.close();
  const arrived = gateway.receipts.length;
  if (arrived !== 1) throw new Error(`${arrived} receipts of the example arrived`);
}
