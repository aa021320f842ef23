// Measures how many receipts a process records, seals and delivers (to a function) in a second of
// processor time, beside plain signatures of the same bytes by node:crypto.
//
//     npm run build && node bench-signing.mjs [SECONDS of each measurement]

import { createPrivateKey, generateKeyPairSync, sign } from "node:crypto";

import { Client, canonicalize, PemSigner } from "receipts-client";

const seconds = Number(process.argv[2] ?? 3);
const USE = {
  url: "https://news.example/2026/11/lead",
  purpose: "inference",
  context: "an answer to a question",
  content: "a paragraph of an article. ".repeat(40),
};
const KINDS = {
  Ed25519: ["ed25519", {}],
  "ECDSA-P256": ["ec", { namedCurve: "P-256" }],
  "RSA-2048": ["rsa", { modulusLength: 2048 }],
};

console.log("algorithm   plain signatures/s  recorded receipts/s  of plain");
for (const [name, [kind, options]] of Object.entries(KINDS)) {
  const { privateKey } = generateKeyPairSync(kind, options);
  const pem = privateKey.export({ type: "pkcs8", format: "pem" });
  const { message, recorded } = await measureClient(pem);
  const plain = await measurePlain(pem, name === "Ed25519" ? null : "sha256", message);
  const share = `${Math.round((100 * recorded) / plain)} %`;
  const columns = [plain, recorded].map((rate) => String(Math.round(rate)).padStart(19));
  console.log(`${name.padEnd(11)}${columns.join("  ")}  ${share.padStart(8)}`);
}

/** Return the rate of recording, and the bytes that a receipt's signature is over. */
async function measureClient(pem) {
  let first;
  const client = new Client({
    url: "https://gateway.invalid",
    fetch: async (_, { body }) => {
      first ??= JSON.parse(Buffer.from(body)).receipts[0];
      return Response.json({ batchId: "any" }, { status: 202 });
    },
    clientId: "018f3f3c-7f2e-7cc0-8b6a-2f6d1c7e9a10",
    name: "Atlas",
    version: "3.1",
    organization: "Example Labs",
    signer: await PemSigner.fromPem(pem),
    queueWaitMs: 60_000,
  });
  const rate = await measure(() => client.record(USE));
  await client.close();
  const { signature: _, signatureAlgorithm: __, ...members } = first;
  return { message: canonicalize(members), recorded: rate };
}

function measurePlain(pem, hash, message) {
  const key = createPrivateKey(pem);
  return measure(() => sign(hash, message, key));
}

/** Return the calls for each second of processor time. */
async function measure(call) {
  for (let count = 0; count < 200; count++) await call();
  const start = process.cpuUsage();
  const end = performance.now() + seconds * 1_000;
  let count = 0;
  while (performance.now() < end) {
    for (let burst = 0; burst < 100; burst++) await call();
    count += 100;
  }
  const { user, system } = process.cpuUsage(start);
  return count / ((user + system) / 1e6);
}
