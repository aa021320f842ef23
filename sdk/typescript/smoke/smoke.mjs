// Signs, delivers and verifies in the runtime that runs this: Node, Deno, Bun, or a Worker's. Each
// algorithm, and a spool where there are files. Run `npm run build` first.

import { Client, CryptoKeySigner, PemSigner, Webhook } from "receipts-client";
import { FakeGateway } from "receipts-client/testing";

const KINDS = [
  { name: "Ed25519" },
  { name: "ECDSA", namedCurve: "P-256" },
  {
    name: "RSASSA-PKCS1-v1_5",
    hash: "SHA-256",
    modulusLength: 2048,
    publicExponent: Uint8Array.from([1, 0, 1]),
  },
];

/** Play a smoke test; return a line for people. Throws if something is wrong. */
export async function smoke(spoolDir) {
  const names = [];
  for (const kind of KINDS) {
    const pair = await crypto.subtle.generateKey(kind, true, ["sign", "verify"]);
    const der = new Uint8Array(await crypto.subtle.exportKey("pkcs8", pair.privateKey));
    const pem = `-----BEGIN PRIVATE KEY-----\n${btoa(String.fromCharCode(...der))}\n-----END PRIVATE KEY-----\n`;
    for (const signer of [await PemSigner.fromPem(pem), await CryptoKeySigner.fromKeyPair(pair)]) {
      await deliver(signer, spoolDir);
    }
    names.push(kind.name);
  }
  return `${names.join(", ")}${spoolDir ? ", with a spool" : ""}: delivered and verified`;
}

async function deliver(signer, spoolDir) {
  const gateway = new FakeGateway();
  gateway.answers.push(Response.json({ code: "overloaded" }, { status: 503 }));
  const client = new Client({
    url: gateway.url,
    fetch: gateway.fetch,
    clientId: "018f3f3c-7f2e-7cc0-8b6a-2f6d1c7e9a10",
    name: "Atlas",
    version: "3.1",
    organization: "Example Labs",
    signer,
    spoolDir,
    retryDelayMsMin: 1,
    retryDelayMsMax: 5,
    logger: { warn() {}, error: console.error },
  });
  const use = { url: "https://news.example/é#a", purpose: "training", context: "é€😀", content: "a" };
  await client.record(use);
  const receiptId = await client.submit(use);
  if (!(await client.close())) throw new Error("close reports an unfinished receipt");
  if (gateway.receipts[1]?.receiptId !== receiptId) throw new Error("the receipt didn't arrive");
  for (const receipt of gateway.receipts) await new Webhook().verify(JSON.stringify(receipt));
}
