import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import type { Receipt } from "receipts-client";
import { canonicalize, UseError, Webhook, WebhookError } from "receipts-client";

import { clientOf, USE } from "./fixtures.js";
import { KEY_NAMES, vectors } from "./vectors.js";

type Vector = {
  name: string;
  receipt: Receipt;
  canonical: string;
  payloadHash: string;
  valid: boolean;
};

const good = vectors<Vector>("receipts").filter(({ valid }) => valid);
const example = good[0]?.receipt as Receipt;
const body = (receipt: unknown) => Buffer.from(JSON.stringify(receipt));
const codeIs = (code: string) => (error: unknown) =>
  error instanceof WebhookError && error.code === code;

test("receipts are judged as the vectors have them", async () => {
  for (const { name, receipt, canonical, payloadHash, valid } of vectors<Vector>("receipts")) {
    const { signature: _, signatureAlgorithm: __, ...members } = receipt;
    const bytes = canonicalize(members);
    assert.equal(Buffer.from(bytes).toString(), canonical, name);
    assert.equal(createHash("sha256").update(bytes).digest("hex"), payloadHash, name);
    const verified = new Webhook().verify(body(receipt));
    if (valid) assert.deepEqual(await verified, receipt, name);
    else await assert.rejects(verified, codeIs("bad_signature"), name);
  }
});

test("the examples are good receipts", async () => {
  for (const name of KEY_NAMES) {
    const url = new URL(`../../../examples/receipt-${name}.json`, import.meta.url);
    await new Webhook().verify(readFileSync(url));
  }
});

test("what a client signs is a good receipt", async () => {
  const { client, gateway } = clientOf();
  await client.record({ ...USE, context: 'é€😀\u2028\u007f\n"\\/ \u0001' });
  await client.close();
  const webhook = new Webhook({ publisher: "news.example" });
  assert.deepEqual(await webhook.verify(body(gateway.receipts[0])), gateway.receipts[0]);
});

test("publishers are compared in canonical form", async () => {
  const { client, gateway } = clientOf();
  const url = "https://www.BÜCHER.example./a";
  await client.record({ ...USE, url, publisher: "bücher.example" });
  await client.close();
  for (const publisher of ["bücher.example", "XN--bcher-kva.example."]) {
    await new Webhook({ publisher }).verify(body(gateway.receipts[0]));
  }
  const other = new Webhook({ publisher: "www.bücher.example" });
  await assert.rejects(other.verify(body(gateway.receipts[0])), codeIs("malformed"));
  assert.throws(() => new Webhook({ publisher: "localhost" }), UseError);
});

test("a body may be a text, bytes or a buffer", async () => {
  const text = JSON.stringify(example);
  const { buffer } = new TextEncoder().encode(text);
  for (const form of [text, new TextEncoder().encode(text), buffer]) {
    assert.deepEqual(await new Webhook().verify(form), example);
  }
});

test("receipts for others, and of other keys, are refused", async () => {
  await assert.rejects(
    new Webhook({ publisher: "other.example" }).verify(body(example)),
    codeIs("malformed"),
  );
  const pem = example.client.publicKey.split("\n").slice(1, -2).join("");
  const fingerprint = createHash("sha256").update(Buffer.from(pem, "base64")).digest("hex");
  await new Webhook({ fingerprints: [fingerprint.toUpperCase()] }).verify(body(example));
  await assert.rejects(
    new Webhook({ fingerprints: ["00"] }).verify(body(example)),
    codeIs("client_key_unknown"),
  );
});

test("a body that isn't a receipt is malformed", async () => {
  const { client, content, signature } = example;
  const bodies = [
    "",
    "[]",
    "null",
    "5",
    "{}",
    '"text"',
    JSON.stringify(example).replace("{", '{"version":"1.0.0",'),
    JSON.stringify({ ...example, signature: `${signature}=` }),
    JSON.stringify({ ...example, signature: 5 }),
    JSON.stringify({ ...example, client: null }),
    JSON.stringify({ ...example, client: { ...client, publicKey: 5 } }),
    JSON.stringify({ ...example, content: { ...content, publisher: undefined } }),
    JSON.stringify({ ...example, extra: "\ud800" }),
    JSON.stringify({ ...example, extra: 5 }).replace("5}", "1e999}"),
  ];
  for (const text of bodies) {
    await assert.rejects(new Webhook().verify(text), codeIs("malformed"), text.slice(0, 200));
  }
  await assert.rejects(new Webhook().verify(Buffer.from([0xff])), codeIs("malformed"));
});

test("a key that isn't usable, or of another algorithm, is refused", async () => {
  const { client } = example;
  const other = { ...example, client: { ...client, publicKey: "key" } };
  await assert.rejects(new Webhook().verify(body(other)), codeIs("bad_public_key"));
  const mixed = { ...example, signatureAlgorithm: "RSA-2048" };
  await assert.rejects(new Webhook().verify(body(mixed)), codeIs("key_algorithm_mismatch"));
});

test("a point that isn't on the curve is no usable key", async () => {
  const { receipt } =
    good.find(({ receipt: one }) => one.signatureAlgorithm === "ECDSA-P256") ?? {};
  assert.ok(receipt);
  const lines = receipt.client.publicKey.split("\n");
  const der = Buffer.from(lines.slice(1, -2).join(""), "base64");
  der[der.length - 1] = (der.at(-1) as number) ^ 1;
  const publicKey = [lines[0], der.toString("base64"), lines.at(-2), ""].join("\n");
  const changed = { ...receipt, client: { ...receipt.client, publicKey } };
  await assert.rejects(new Webhook().verify(body(changed)), codeIs("bad_public_key"));
});

test("receipts carry the public keys that the vectors have in receipts", async () => {
  type Key = { name: string; pem: string; algorithm?: string; inReceipts?: boolean };
  const { client, usage } = example;
  for (const { name, pem, algorithm, inReceipts } of vectors<Key>("public-keys")) {
    const receipt = {
      ...example,
      client: { ...client, publicKey: pem },
      usage: { ...usage, context: "changed" },
      signatureAlgorithm: algorithm ?? "Ed25519",
    };
    // Nobody signed this receipt, so the check behind the key's refuses it.
    const code = inReceipts ? "bad_signature" : "bad_public_key";
    await assert.rejects(new Webhook().verify(body(receipt)), codeIs(code), name);
  }
});

test("a receipt that anybody can sign for is refused", async () => {
  // The identity as key and as R, and S = 0: OpenSSL accepts it for every message.
  const identity = Buffer.alloc(32);
  identity[0] = 1;
  const der = Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), identity]);
  const publicKey = `-----BEGIN PUBLIC KEY-----\n${der.toString("base64")}\n-----END PUBLIC KEY-----\n`;
  const { client } = example;
  const signature = Buffer.concat([identity, Buffer.alloc(32)]).toString("base64");
  const signatureAlgorithm = "Ed25519";
  const forged = { ...example, client: { ...client, publicKey }, signature, signatureAlgorithm };
  await assert.rejects(new Webhook().verify(body(forged)), codeIs("bad_public_key"));
});

test("a batch is good if its signature and all its receipts are", async () => {
  for (const name of KEY_NAMES) {
    const url = new URL(`../../../examples/batch-${name}.json`, import.meta.url);
    const text = readFileSync(url, "utf8");
    const batch = JSON.parse(text);
    assert.deepEqual(await new Webhook().verifyAll(text), batch.receipts);
    const changed = { ...batch, batchId: `${batch.batchId}.` };
    await assert.rejects(new Webhook().verifyAll(body(changed)), codeIs("bad_batch_signature"));
    batch.receipts[0].usage.context += ".";
    await assert.rejects(new Webhook().verifyAll(body(batch)), codeIs("bad_signature"));
  }
  assert.deepEqual(await new Webhook().verifyAll(body(example)), [example]);
  const receipts = good.map(({ receipt }) => receipt);
  for (const wrong of [[], {}, [5], [null], receipts]) {
    const batch = { version: "1.0.0", batchId: "a", receipts: wrong };
    await assert.rejects(new Webhook().verifyAll(body(batch)), codeIs("malformed"));
  }
});
