// Receipts that a publisher gets at an address of its own.

import { backend } from "#crypto";

import { fromBase64 } from "./base64.js";
import { canonicalize, parse } from "./canonical.js";
import { canonicalHost, hostOf } from "./canonical-url.js";
import { CanonicalError, KeyError, ReceiptsError, UseError } from "./errors.js";
import { hex } from "./hex.js";
import type { PublicKey } from "./key.js";
import { publicKeyOf } from "./key.js";
import type { Receipt } from "./receipt.js";
import { isValid } from "./verification.js";

/** A body that isn't a good receipt. */
export class WebhookError extends ReceiptsError {
  override readonly name = "WebhookError";
  /** One of the service's rejection reasons. */
  readonly code: string;

  constructor(code: string, detail: string, options?: { cause?: unknown }) {
    super(`${code}: ${detail}`, options);
    this.code = code;
  }
}

/** Options of a webhook. */
export interface WebhookOptions {
  /** Your domain; without it, receipts for any publisher are accepted. */
  readonly publisher?: string | undefined;
  /** SHA-256 of accepted keys' SPKI in DER, in hexadecimal; without it, any key is accepted. */
  readonly fingerprints?: Iterable<string> | undefined;
}

/**
 * Verifies receipts. A valid signature proves that the holder of the receipt's own key made it, not
 * who that is: give `fingerprints` to accept certain keys only.
 */
export class Webhook {
  readonly #publisher: string | undefined;
  readonly #fingerprints: ReadonlySet<string> | undefined;

  constructor({ publisher, fingerprints }: WebhookOptions = {}) {
    this.#publisher = publisher === undefined ? undefined : canonicalHost(publisher);
    if (publisher !== undefined && this.#publisher === undefined) {
      throw new UseError(`publisher is ${publisher}: write a domain name, like news.example`);
    }
    this.#fingerprints =
      fingerprints && new Set([...fingerprints].map((text) => text.toLowerCase()));
  }

  /** Return the receipt in the body of a request, as received. Throws `WebhookError`. */
  async verify(body: Uint8Array | ArrayBuffer | string): Promise<Receipt> {
    return this.#verified(parsed(body));
  }

  /**
   * Return the receipts of a body that is one receipt or a batch. A batch is good if its own
   * signature and all its receipts are. Throws `WebhookError`.
   */
  async verifyAll(body: Uint8Array | ArrayBuffer | string): Promise<Receipt[]> {
    const members = parsed(body);
    if (!("receipts" in members)) return [await this.#verified(members)];
    const { receipts } = members as { receipts: unknown };
    if (!Array.isArray(receipts) || !receipts.length) {
      throw new WebhookError("malformed", "receipts isn't an array with receipts");
    }
    const verified: Receipt[] = [];
    for (const receipt of receipts) verified.push(await this.#verified(receipt as object));
    const [pem, ...others] = new Set(verified.map(({ client }) => client.publicKey));
    if (others.length) {
      throw new WebhookError("malformed", "the receipts of the batch have several keys");
    }
    await checkSignature(members, keyOf(pem), "bad_batch_signature");
    return verified;
  }

  async #verified(value: object): Promise<Receipt> {
    const receipt = value as Receipt;
    let key: PublicKey;
    let host: string;
    let publisher: string | undefined;
    try {
      host = hostOf(receipt.content.url);
      publisher = canonicalHost(receipt.content.publisher);
      key = keyOf(receipt.client.publicKey);
    } catch (error) {
      // A member is absent, of another type, or no URL.
      if (!(error instanceof TypeError || error instanceof UseError)) throw error;
      throw new WebhookError("malformed", `isn't a receipt: ${error.message}`, { cause: error });
    }
    await checkSignature(receipt, key, "bad_signature");
    if (publisher === undefined || !`.${host}`.endsWith(`.${publisher}`)) {
      const detail = `content.url isn't on ${receipt.content.publisher}`;
      throw new WebhookError("malformed", detail);
    }
    const fingerprint = hex(await backend.sha256(key.der));
    if (this.#fingerprints && !this.#fingerprints.has(fingerprint)) {
      throw new WebhookError("client_key_unknown", `the key ${fingerprint} isn't accepted`);
    }
    if (this.#publisher && publisher !== this.#publisher) {
      throw new WebhookError("malformed", `the receipt is for ${publisher}`);
    }
    return receipt;
  }
}

function parsed(body: Uint8Array | ArrayBuffer | string): object {
  try {
    const value = parse(body instanceof ArrayBuffer ? new Uint8Array(body) : body);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  } catch (error) {
    if (!(error instanceof CanonicalError)) throw error;
    throw new WebhookError("malformed", error.message, { cause: error });
  }
  throw new WebhookError("malformed", "isn't a JSON object");
}

/** Throws `WebhookError` if a receipt's or batch's own signature isn't the key's. */
async function checkSignature(value: object, key: PublicKey, code: string): Promise<void> {
  const { signature, signatureAlgorithm, ...members } = value as Record<string, unknown>;
  const bytes = typeof signature === "string" ? fromBase64(signature) : undefined;
  if (!bytes) throw new WebhookError("malformed", "the signature isn't base64");
  let message: Uint8Array;
  try {
    message = canonicalize(members);
  } catch (error) {
    throw new WebhookError("malformed", (error as Error).message, { cause: error });
  }
  if (key.algorithm !== signatureAlgorithm) {
    const detail = `the key is for ${key.algorithm}, not ${String(signatureAlgorithm)}`;
    throw new WebhookError("key_algorithm_mismatch", detail);
  }
  let isKeys: boolean;
  try {
    isKeys = await isValid(key, message, bytes);
  } catch (error) {
    if (!(error instanceof KeyError)) throw error;
    throw new WebhookError("bad_public_key", error.message, { cause: error });
  }
  if (!isKeys) throw new WebhookError(code, "the signature isn't the key's");
}

function keyOf(pem: unknown): PublicKey {
  if (typeof pem !== "string") throw new TypeError("client.publicKey isn't a text");
  try {
    return publicKeyOf(pem);
  } catch (error) {
    throw new WebhookError("bad_public_key", (error as Error).message, { cause: error });
  }
}
