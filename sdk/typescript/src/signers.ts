import { backend } from "#crypto";
import { host } from "#host";

import { toBase64 } from "./base64.js";
import type { Eventual, SigningKey } from "./crypto/backend.js";
import { KeyError } from "./errors.js";
import type { Algorithm } from "./key.js";
import { publicKeyOf, publicPem } from "./key.js";
import { signersPublicKey } from "./key-text.js";

/** A key that signs receipts. */
export interface Signer {
  readonly algorithm: Algorithm;
  /** SPKI in PEM. */
  readonly publicKey: string;
  /**
   * Return the signature: RFC 8032, PKCS#1 v1.5 with SHA-256, or ECDSA with SHA-256 in DER or as r
   * and s with 32 bytes each. Several calls may be in progress.
   */
  sign(message: Uint8Array): Eventual<Uint8Array>;
}

/**
 * A private key in PKCS#8 PEM, as `receipts keygen` and `openssl genpkey` write it. `\n` may be
 * written for its line ends, as in environment variables.
 */
export class PemSigner implements Signer {
  readonly #key: SigningKey;

  private constructor(key: SigningKey) {
    this.#key = key;
  }

  /** Read a key. Only Node reads encrypted keys, with `passphrase`. Throws `KeyError`. */
  static async fromPem(pem: string, options: { passphrase?: string } = {}): Promise<PemSigner> {
    return new PemSigner(await backend.signingKey(pem, options.passphrase));
  }

  /** Read the key from an environment variable. Throws `KeyError`. */
  static async fromEnv(name = "RECEIPTS_CLIENT_KEY"): Promise<PemSigner> {
    const pem = host.environment(name);
    if (!pem)
      throw new KeyError(`the environment variable ${name} isn't set: put the key's PEM there`);
    return PemSigner.fromPem(pem);
  }

  /** Read the key from a file. Throws `KeyError`, or the file system's error. */
  static async fromFile(path: string, options: { passphrase?: string } = {}): Promise<PemSigner> {
    return PemSigner.fromPem(await host.readText(path), options);
  }

  get algorithm(): Algorithm {
    return this.#key.algorithm;
  }

  get publicKey(): string {
    return this.#key.publicKey;
  }

  /** Return the signature of `message`. */
  sign(message: Uint8Array): Eventual<Uint8Array> {
    return this.#key.sign(message);
  }
}

/**
 * A key elsewhere, such as in a KMS or an HSM. The algorithm follows from `publicKey`, an SPKI in
 * PEM; `sign` is that of `Signer`.
 */
export class CallbackSigner implements Signer {
  readonly algorithm: Algorithm;
  readonly publicKey: string;
  readonly #sign: Signer["sign"];

  /** Throws `KeyError` for a key that isn't Ed25519, RSA with 2048 bits or ECDSA P-256. */
  constructor({ publicKey, sign }: { publicKey: string; sign: Signer["sign"] }) {
    const { algorithm, der } = signersPublicKey(publicKey);
    this.algorithm = algorithm;
    this.publicKey = publicPem(der);
    this.#sign = sign;
  }

  /** Return the signature of `message`. */
  sign(message: Uint8Array): Eventual<Uint8Array> {
    return this.#sign(message);
  }
}

/** The members of a WebCrypto `CryptoKey` that this package reads. */
export interface CryptoKeyLike {
  readonly type: string;
  readonly algorithm: { readonly name: string };
}

/** A pair of WebCrypto keys. The private one needn't be extractable. */
export class CryptoKeySigner implements Signer {
  readonly algorithm: Algorithm;
  readonly publicKey: string;
  readonly #key: CryptoKeyLike;

  private constructor(publicKey: string, key: CryptoKeyLike) {
    this.algorithm = publicKeyOf(publicKey).algorithm;
    this.publicKey = publicKey;
    this.#key = key;
  }

  /** Throws `KeyError`. RSA keys must be for RSASSA-PKCS1-v1_5 with SHA-256. */
  static async fromKeyPair(pair: {
    readonly privateKey: CryptoKeyLike;
    readonly publicKey: CryptoKeyLike;
  }): Promise<CryptoKeySigner> {
    const { name, hash } = pair.privateKey.algorithm as { name: string; hash?: { name: string } };
    if (name.startsWith("RSA") && (name !== "RSASSA-PKCS1-v1_5" || hash?.name !== "SHA-256")) {
      throw new KeyError(
        `the key is for ${name} with ${hash?.name}: make one for RSASSA-PKCS1-v1_5 with SHA-256`,
      );
    }
    const spki = await crypto.subtle.exportKey("spki", pair.publicKey as never);
    return new CryptoKeySigner(publicPem(new Uint8Array(spki as ArrayBuffer)), pair.privateKey);
  }

  /** Return the signature of `message`. */
  async sign(message: Uint8Array): Promise<Uint8Array> {
    const algorithm = { name: this.#key.algorithm.name, hash: "SHA-256" };
    return new Uint8Array(await crypto.subtle.sign(algorithm, this.#key as never, message));
  }
}

/** Sign a test message. Throws `KeyError` if the signature isn't the public key's. */
export async function checkSigner(signer: Signer): Promise<void> {
  const message = new TextEncoder().encode("receipts-client: a test of the key");
  const key = publicKeyOf(signer.publicKey);
  const signature = await signer.sign(message);
  if (key.algorithm !== signer.algorithm || !(await backend.verify(key, message, signature))) {
    throw new KeyError(`the signer's signature isn't one of its public key by ${signer.algorithm}`);
  }
}

/** Return the signature in base64 (RFC 4648, section 4). */
export async function signatureText(signer: Signer, message: Uint8Array): Promise<string> {
  return toBase64(await signer.sign(message));
}
