// Hashes and signatures by node:crypto, which answers at once.

import type { KeyObject } from "node:crypto";
import { createHash, createPrivateKey, createPublicKey, sign, verify } from "node:crypto";

import { KeyError } from "../errors.js";
import type { Algorithm, PublicKey } from "../key.js";
import { publicKeyOf, publicPem } from "../key.js";
import { privateKeyDer, unescaped, unusablePrivateKey } from "../key-text.js";
import type { Backend, SigningKey } from "./backend.js";

const digestOf = (algorithm: Algorithm) => (algorithm === "Ed25519" ? null : "sha256");

export const backend: Backend = {
  sha1: (data) => createHash("sha1").update(data).digest(),

  sha256: (data) => createHash("sha256").update(data).digest(),

  async signingKey(pem, passphrase): Promise<SigningKey> {
    let key: KeyObject;
    try {
      key = createPrivateKey(
        passphrase === undefined
          ? { key: Buffer.from(privateKeyDer(pem)), format: "der", type: "pkcs8" }
          : { key: unescaped(pem), passphrase },
      );
    } catch (error) {
      if (error instanceof KeyError) throw error;
      throw passphrase === undefined ? unusablePrivateKey(error) : wrongPassphrase(error);
    }
    const spki = createPublicKey(key).export({ type: "spki", format: "der" });
    const publicKey = publicPem(spki);
    const { algorithm } = publicKeyOf(publicKey);
    const digest = digestOf(algorithm);
    return { algorithm, publicKey, sign: (message) => sign(digest, message, key) };
  },

  verify(key: PublicKey, message, signature): boolean {
    const digest = digestOf(key.algorithm);
    let object: KeyObject;
    try {
      object = createPublicKey({ key: key.der as Buffer, format: "der", type: "spki" });
    } catch (error) {
      throw new KeyError(`the public key can't be read: ${(error as Error).message}`, {
        cause: error,
      });
    }
    const isRaw = key.algorithm === "ECDSA-P256" && signature.length === 64;
    return verify(
      digest,
      message,
      isRaw ? { key: object, dsaEncoding: "ieee-p1363" } : object,
      signature,
    );
  },
};

function wrongPassphrase(cause: unknown): KeyError {
  return new KeyError("the private key can't be read with this passphrase", { cause });
}
