import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createPrivateKey, generateKeyPairSync, sign } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import type { Algorithm, Signer } from "receipts-client";
import { CallbackSigner, CryptoKeySigner, KeyError, PemSigner } from "receipts-client";

import { rawSignature } from "../dist/der.js";
import { publicKeyOf } from "../dist/key.js";
import { KEY_NAMES, keyPem, vectors } from "./vectors.js";

// As package.json chooses it for this run.
const { backend } = (await import(
  process.execArgv.some((argument) => argument.includes("workerd"))
    ? "../dist/crypto/web.js"
    : "../dist/crypto/node.js"
)) as typeof import("../dist/crypto/node.js");

const MESSAGE = Buffer.from('{"a":1}');

async function isValid(signer: Signer): Promise<boolean> {
  return backend.verify(publicKeyOf(signer.publicKey), MESSAGE, await signer.sign(MESSAGE));
}

test("signatures are judged as the vectors have them", async () => {
  type Vector = {
    name: string;
    algorithm: Algorithm;
    publicKey: string;
    message: string;
    signature: string;
    valid: boolean;
  };
  for (const vector of vectors<Vector>("signatures")) {
    const key = publicKeyOf(vector.publicKey);
    assert.equal(key.algorithm, vector.algorithm);
    const [message, signature] = [vector.message, vector.signature].map((part) =>
      Buffer.from(part, "base64"),
    );
    const verdict = await backend.verify(key, message as Buffer, signature as Buffer);
    assert.equal(verdict, vector.valid, `${vector.algorithm}: ${vector.name}`);
  }
});

test("openssl verifies what each kind of key signs", async () => {
  const folder = mkdtempSync(join(tmpdir(), "receipts-client-"));
  try {
    for (const name of KEY_NAMES) {
      const signer = await PemSigner.fromPem(keyPem(name));
      let signature: Buffer = Buffer.from(await signer.sign(MESSAGE));
      if (signer.algorithm === "ECDSA-P256" && signature.length === 64) signature = der(signature);
      writeFileSync(join(folder, "key"), signer.publicKey);
      writeFileSync(join(folder, "message"), MESSAGE);
      writeFileSync(join(folder, "signature"), signature);
      const hash = signer.algorithm === "Ed25519" ? [] : ["-digest", "sha256"];
      const files = ["-inkey", "key", "-sigfile", "signature", "-in", "message"];
      const options = ["pkeyutl", "-verify", "-pubin", "-rawin", ...hash, ...files];
      const output = execFileSync("openssl", options, { cwd: folder, encoding: "utf8" });
      assert.match(output, /Verified Successfully/, name);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("the public key of a private one is that of openssl", async () => {
  for (const name of KEY_NAMES) {
    const signer = await PemSigner.fromPem(keyPem(name));
    const input = keyPem(name);
    const expected = execFileSync("openssl", ["pkey", "-pubout"], { input, encoding: "utf8" });
    assert.equal(signer.publicKey, expected);
  }
});

test("a callback signs with a key that is elsewhere", async () => {
  for (const name of KEY_NAMES) {
    const { publicKey, algorithm } = await PemSigner.fromPem(keyPem(name));
    const key = createPrivateKey(keyPem(name));
    const hash = algorithm === "Ed25519" ? null : "sha256";
    const later = new CallbackSigner({ publicKey, sign: async (data) => sign(hash, data, key) });
    const atOnce = new CallbackSigner({ publicKey, sign: (data) => sign(hash, data, key) });
    assert.equal(later.algorithm, algorithm);
    assert.ok((await isValid(later)) && (await isValid(atOnce)));
  }
});

test("a pair of WebCrypto keys signs", async () => {
  const kinds = [
    { name: "Ed25519" },
    { name: "ECDSA", namedCurve: "P-256" },
    {
      name: "RSASSA-PKCS1-v1_5",
      hash: "SHA-256",
      modulusLength: 2048,
      publicExponent: Uint8Array.from([1, 0, 1]),
    },
  ];
  for (const kind of kinds) {
    const pair = await crypto.subtle.generateKey(kind as never, false, ["sign", "verify"]);
    const signer = await CryptoKeySigner.fromKeyPair(pair as never);
    assert.ok(await isValid(signer), kind.name);
  }
  const wrong = { ...kinds[2], hash: "SHA-512" };
  const pair = await crypto.subtle.generateKey(wrong as never, false, ["sign", "verify"]);
  await assert.rejects(CryptoKeySigner.fromKeyPair(pair as never), KeyError);
});

test("a key comes from an environment variable", async () => {
  process.env["RECEIPTS_TEST_KEY"] = keyPem("ed25519");
  const signer = await PemSigner.fromEnv("RECEIPTS_TEST_KEY");
  assert.equal(signer.algorithm, "Ed25519");
  delete process.env["RECEIPTS_TEST_KEY"];
  await assert.rejects(PemSigner.fromEnv("RECEIPTS_TEST_KEY"), KeyError);
});

test("a text for a private key signs, or the error has the command that makes one", async () => {
  type Vector = { name: string; pem: string; algorithm?: Algorithm; command?: string };
  for (const { name, pem, algorithm, command } of vectors<Vector>("private-keys")) {
    process.env["RECEIPTS_TEST_KEY"] = pem;
    for (const read of [
      () => PemSigner.fromPem(pem),
      () => PemSigner.fromEnv("RECEIPTS_TEST_KEY"),
    ]) {
      const signer = await read().catch((error: unknown) => error);
      if (algorithm) {
        assert.ok(signer instanceof PemSigner, `${name}: ${String(signer)}`);
        assert.equal(signer.algorithm, algorithm, name);
        assert.ok(await isValid(signer), name);
      } else {
        assert.ok(signer instanceof KeyError, name);
        const isSet = pem !== "" || !signer.message.includes("isn't set");
        if (isSet) assert.ok(signer.message.includes(command as string), `${name}: ${signer}`);
        const secret = pem
          .split(/\r?\n/)
          .filter((line) => line.length > 20 && !line.includes("--"));
        for (const line of secret) assert.ok(!signer.message.includes(line), name);
      }
    }
  }
  delete process.env["RECEIPTS_TEST_KEY"];
});

test("a text for a public key is one that receipts carry, or the error has the command", () => {
  type Vector = { name: string; pem: string; publicKey?: string; command?: string };
  for (const { name, pem, publicKey, command } of vectors<Vector>("public-keys")) {
    const make = () => new CallbackSigner({ publicKey: pem, sign: (data) => data });
    if (publicKey) {
      assert.equal(make().publicKey, publicKey, name);
      continue;
    }
    assert.throws(
      make,
      (error: unknown) => {
        return error instanceof KeyError && error.message.includes(command as string);
      },
      name,
    );
  }
});

test("a key of another kind is refused", async () => {
  const pairs = [
    generateKeyPairSync("rsa", { modulusLength: 3072 }),
    generateKeyPairSync("ec", { namedCurve: "P-384" }),
    generateKeyPairSync("ed448"),
    generateKeyPairSync("x25519"),
  ];
  for (const { publicKey, privateKey } of pairs) {
    const spki = publicKey.export({ type: "spki", format: "pem" }).toString();
    const pkcs8 = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
    assert.throws(() => new CallbackSigner({ publicKey: spki, sign: (data) => data }), KeyError);
    await assert.rejects(PemSigner.fromPem(pkcs8), KeyError);
  }
});

test("a text that isn't a key is refused", async () => {
  const spki = (await PemSigner.fromPem(keyPem("ed25519"))).publicKey;
  for (const text of ["", "key", spki, keyPem("ed25519").replace("MC4C", "MC4D")]) {
    await assert.rejects(PemSigner.fromPem(text), KeyError, text);
  }
  const cut = spki.replace(/.{8}\n-----END/, "\n-----END");
  for (const text of ["", "key", keyPem("ed25519"), cut, spki.replaceAll("\n", " ")]) {
    assert.throws(() => publicKeyOf(text), KeyError, text);
  }
  assert.equal(publicKeyOf(spki.replaceAll("\n", "\r\n")).algorithm, "Ed25519");
});

test("r and s of a signature in DER are found, whatever their length", () => {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  // About one of 128 has an integer that is shorter than 32 bytes.
  for (let count = 0; count < 600; count++) {
    const signature = sign("sha256", Buffer.from([count]), privateKey);
    const raw = rawSignature(signature);
    assert.ok(raw);
    assert.deepEqual(der(Buffer.from(raw)), signature);
    assert.equal(rawSignature(signature.subarray(0, -1)), undefined);
    assert.equal(rawSignature(Buffer.concat([signature, Buffer.from([0])])), undefined);
  }
});

/** Write r and s of 32 bytes each in DER. */
function der(raw: Buffer): Buffer {
  const integers = [raw.subarray(0, 32), raw.subarray(32)].map((part) => {
    const digits = BigInt(`0x${part.toString("hex")}`).toString(16);
    const bytes = Buffer.from(digits.length % 2 ? `0${digits}` : digits, "hex");
    const padded = (bytes[0] as number) >= 0x80 ? Buffer.concat([Buffer.from([0]), bytes]) : bytes;
    return Buffer.concat([Buffer.from([2, padded.length]), padded]);
  });
  const content = Buffer.concat(integers);
  return Buffer.concat([Buffer.from([0x30, content.length]), content]);
}
