// Hashes and signatures by WebCrypto.

import { rawSignature } from "../der.js";
import { KeyError } from "../errors.js";
import type { Algorithm, PublicKey } from "../key.js";
import { privateKeyAlgorithm, publicKeyOf, publicPem } from "../key.js";
import { privateKeyDer, unusablePrivateKey } from "../key-text.js";
import type { Backend, SigningKey } from "./backend.js";

const { subtle } = crypto;

const IMPORT = {
  Ed25519: { name: "Ed25519" },
  "RSA-2048": { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" },
  "ECDSA-P256": { name: "ECDSA", namedCurve: "P-256" },
} as const satisfies Record<Algorithm, object>;

const SIGN = {
  Ed25519: { name: "Ed25519" },
  "RSA-2048": { name: "RSASSA-PKCS1-v1_5" },
  "ECDSA-P256": { name: "ECDSA", hash: "SHA-256" },
} as const satisfies Record<Algorithm, object>;

export const backend: Backend = {
  sha1: async (data) => new Uint8Array(await subtle.digest("SHA-1", data)),

  sha256: async (data) => new Uint8Array(await subtle.digest("SHA-256", data)),

  async signingKey(pem, passphrase): Promise<SigningKey> {
    if (passphrase !== undefined) {
      throw new KeyError(
        "WebCrypto reads no encrypted keys: decrypt it with `openssl pkcs8 -in client.key`, " +
          "or run in Node",
      );
    }
    const der = privateKeyDer(pem);
    const algorithm = privateKeyAlgorithm(der);
    const { key, spki } = await imported(der, algorithm);
    const publicKey = publicPem(spki);
    publicKeyOf(publicKey);
    const sign = async (message: Uint8Array) =>
      new Uint8Array(await subtle.sign(SIGN[algorithm], key, message));
    return { algorithm, publicKey, sign };
  },

  async verify(key: PublicKey, message, signature): Promise<boolean> {
    let raw: Uint8Array | undefined = signature;
    if (key.algorithm === "ECDSA-P256" && signature.length !== 64) raw = rawSignature(signature);
    const object = await subtle
      .importKey("spki", key.der, IMPORT[key.algorithm], false, ["verify"])
      .catch((error: unknown) => {
        throw new KeyError(`the public key can't be read: ${String(error)}`, { cause: error });
      });
    return raw !== undefined && subtle.verify(SIGN[key.algorithm], object, raw, message);
  },
};

async function imported(der: Uint8Array, algorithm: Algorithm) {
  try {
    // Extractable, because WebCrypto derives a public key by export only.
    const whole = await subtle.importKey("pkcs8", der, IMPORT[algorithm], true, ["sign"]);
    const { kty, crv, x, y, n, e } = await subtle.exportKey("jwk", whole);
    const part = Object.fromEntries(
      Object.entries({ kty, crv, x, y, n, e }).filter(([, value]) => value !== undefined),
    );
    const open = await subtle.importKey("jwk", part, IMPORT[algorithm], true, ["verify"]);
    const spki = new Uint8Array(await subtle.exportKey("spki", open));
    return { key: await subtle.importKey("pkcs8", der, IMPORT[algorithm], false, ["sign"]), spki };
  } catch (error) {
    throw unusablePrivateKey(error);
  }
}
