// Clients in processes of their own, with a spool, and at the end of a process.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import type { Server } from "node:http";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";

import { Client, PemSigner, SpoolError, Webhook } from "receipts-client";
import { FakeGateway } from "receipts-client/testing";

import { CLIENT_ID, clientOf, signer, USE } from "./fixtures.js";
import { keyPem } from "./vectors.js";

// As package.json chooses it for this run: without files there is no spool.
const hasFiles = !process.execArgv.some((argument) => argument.includes("workerd"));

interface Gateway {
  readonly url: string;
  readonly fake: FakeGateway;
  readonly bodies: string[];
  /** Whether requests with a batch get no answer. */
  hangs: boolean;
}

async function withGateway(
  run: (gateway: Gateway, folder: string) => Promise<void>,
): Promise<void> {
  const fake = new FakeGateway();
  const bodies: string[] = [];
  const gateway = { url: "", fake, bodies, hangs: false };
  const server: Server = createServer(async (request, response) => {
    const body = Buffer.concat((await request.toArray()) as Buffer[]);
    const encoding = request.headers["content-encoding"];
    const headers = { "Content-Encoding": encoding };
    if (body.length) bodies.push(String(encoding === "gzip" ? gunzipSync(body) : body));
    if (gateway.hangs) return;
    const url = `http://gateway.invalid${request.url}`;
    const answer: Response = await fake.fetch(url, { headers, body } as never);
    response.writeHead(answer.status).end(Buffer.from(await answer.arrayBuffer()));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  gateway.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const folder = mkdtempSync(join(tmpdir(), "receipts-client-"));
  try {
    await run(gateway, folder);
  } finally {
    server.closeAllConnections();
    server.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Run a program with a client; return its output and exit code. */
async function run(
  gateway: Gateway,
  options: object,
  body: string,
): Promise<[string, number | null]> {
  const members = {
    url: gateway.url,
    clientId: CLIENT_ID,
    name: "Atlas",
    version: "3.1",
    organization: "Example Labs",
    retryDelayMsMin: 10,
    retryDelayMsMax: 50,
    ...options,
  };
  const program = `
    const { Client, PemSigner } = await import(${JSON.stringify(import.meta.resolve("receipts-client"))});
    const signer = await PemSigner.fromPem(${JSON.stringify(keyPem("ed25519"))});
    const client = new Client({ ...${JSON.stringify(members)}, signer });
    const use = ${JSON.stringify(USE)};
    ${body}`;
  const arguments_ = ["--input-type=module", "--eval", program];
  const child = spawn(process.execPath, arguments_, { stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (part: string) => {
      output += part;
    });
  }
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return [output, code];
}

const receipts = (gateway: Gateway) => gateway.fake.receipts;

test("a process that ends by itself delivers before", async () => {
  await withGateway(async (gateway) => {
    const body = "await client.record(use); await client.record(use); console.log('done');";
    const [output, code] = await run(gateway, { batchDelayMs: 60_000 }, body);
    assert.deepEqual([output, code], ["done\n", 0]);
    assert.equal(receipts(gateway).length, 2);
  });
});

test("a process ends although the gateway is away", async () => {
  await withGateway(async (gateway) => {
    gateway.fake.status = 503;
    const body = "await client.record(use); console.log('done');";
    const [output, code] = await run(gateway, {}, body);
    assert.equal(code, 0);
    assert.match(output, /1 receipts aren't acknowledged: 1 are lost/);
  });
});

test("a process that ends by itself waits for a request that hangs, and reports", async () => {
  await withGateway(async (gateway) => {
    gateway.hangs = true;
    const options = { batchDelayMs: 0, requestTimeoutMs: 300 };
    const body = "await client.record(use); await new Promise((wake) => setTimeout(wake, 100));";
    const [output, code] = await run(gateway, options, body);
    assert.equal(code, 0);
    assert.match(output, /no answer within 300 ms/);
    assert.match(output, /1 are lost/);
  });
});

test("a process with an open client that did nothing ends", async () => {
  await withGateway(async (gateway) => {
    assert.deepEqual(await run(gateway, {}, "console.log('done');"), ["done\n", 0]);
  });
});

test("flush and submit keep a process alive until they are done", async () => {
  await withGateway(async (gateway) => {
    const body = `
      await client.record(use);
      const isDone = await client.flush();
      const id = await client.submit(use);
      console.log(isDone, id.length);
      await client.close();`;
    const [output, code] = await run(gateway, {}, body);
    assert.deepEqual([output, code], ["true 36\n", 0]);
    assert.equal(receipts(gateway).length, 2);
  });
});

test("what a killed process recorded is delivered by the next", { skip: !hasFiles }, async () => {
  await withGateway(async (gateway, folder) => {
    gateway.fake.status = 503;
    const spoolDir = join(folder, "spool");
    const recorded: string[] = [];
    const body = `
      for (let count = 0; count < 25; count++) console.log(await client.record(use));
      process.kill(process.pid, "SIGKILL");`;
    for (let round = 0; round < 3; round++) {
      const [output] = await run(gateway, { spoolDir, batchReceiptsMax: 10, logger: {} }, body);
      recorded.push(...output.split("\n").filter((line) => line.length === 36));
    }
    assert.equal(recorded.length, 75);
    gateway.fake.status = 202;
    const [, code] = await run(
      gateway,
      { spoolDir },
      "await client.flush(); await client.close();",
    );
    assert.equal(code, 0);
    const arrived = receipts(gateway).map(({ receiptId }) => receiptId);
    assert.deepEqual(arrived.sort(), recorded.sort());
    // A batch has the same bytes whenever it arrives.
    const bodies = new Map<string, string>();
    for (const text of gateway.bodies) {
      const { batchId } = JSON.parse(text) as { batchId: string };
      assert.equal(bodies.get(batchId) ?? text, text);
      bodies.set(batchId, text);
    }
    assert.deepEqual(readdirSync(spoolDir), []);
  });
});

test("what close can't deliver stays in the spool", { skip: !hasFiles }, async () => {
  await withGateway(async (gateway, folder) => {
    gateway.fake.status = 503;
    const logger = { warn() {}, error() {} };
    const options = {
      url: gateway.url,
      clientId: CLIENT_ID,
      name: "Atlas",
      version: "3.1",
      organization: "Example Labs",
      signer: await PemSigner.fromPem(keyPem("ecdsa-p256")),
      spoolDir: folder,
      logger,
    };
    const first = new Client(options);
    const id = await first.record(USE);
    assert.equal(await first.close({ timeoutMs: 50 }), false);
    const second = new Client(options);
    await second.ready();
    assert.equal(second.state().queued + second.state().inFlight, 1);
    gateway.fake.status = 202;
    assert.ok(await second.close());
    assert.deepEqual(
      receipts(gateway).map(({ receiptId }) => receiptId),
      [id],
    );
    assert.equal(second.state().spooledBatches, 0);
  });
});

test("receipts that an ended process left are signed by the new key", {
  skip: !hasFiles,
}, async () => {
  await withGateway(async (gateway, folder) => {
    gateway.fake.status = 503;
    const body = 'console.log(await client.record(use)); process.kill(process.pid, "SIGKILL");';
    const [id] = await run(gateway, { spoolDir: folder, batchDelayMs: 60_000 }, body);
    gateway.fake.status = 202;
    const rotated = await PemSigner.fromPem(keyPem("rsa-2048"));
    const { client } = clientOf({
      url: gateway.url,
      fetch: globalThis.fetch,
      spoolDir: folder,
      signer: rotated,
    });
    await client.record(USE);
    assert.ok(await client.close());
    const verified = [];
    for (const batch of new Set(gateway.bodies))
      verified.push(...(await new Webhook().verifyAll(batch)));
    assert.ok(verified.some(({ receiptId }) => receiptId === id.trim()));
    assert.equal(verified.length, 2);
    for (const receipt of verified) assert.equal(receipt.client.publicKey, rotated.publicKey);
  });
});

test("a spool that can't be opened is an error of ready, record and flush", async () => {
  const { client } = clientOf({ spoolDir: hasFiles ? "/dev/null/spool" : "spool", signer });
  await assert.rejects(client.ready(), SpoolError);
  await assert.rejects(client.record(USE), SpoolError);
  await assert.rejects(client.flush(), SpoolError);
  assert.equal(await client.close(), false);
});
