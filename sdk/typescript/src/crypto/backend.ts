import type { Algorithm, PublicKey } from "../key.js";

/** A value, now or later. */
export type Eventual<T> = T | Promise<T>;

/** A private key that signs. */
export interface SigningKey {
  readonly algorithm: Algorithm;
  /** SPKI in PEM. */
  readonly publicKey: string;
  sign(message: Uint8Array): Eventual<Uint8Array>;
}

/** Hashes and signatures, by node:crypto or by WebCrypto. */
export interface Backend {
  sha1(data: Uint8Array): Eventual<Uint8Array>;
  sha256(data: Uint8Array): Eventual<Uint8Array>;
  /** Read a private key in PEM. Throws `KeyError`. */
  signingKey(pem: string, passphrase: string | undefined): Promise<SigningKey>;
  /** Return whether a signature is the key's. Throws `KeyError` if the key isn't usable. */
  verify(key: PublicKey, message: Uint8Array, signature: Uint8Array): Eventual<boolean>;
}
