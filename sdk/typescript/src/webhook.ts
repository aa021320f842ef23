// Receipts that a publisher gets at an address of its own.

import { backend } from "#crypto";

import { fromBase64 } from "./base64.js";
import { canonicalize, parse } from "./canonical.js";
import { CanonicalError, KeyError, ReceiptsError } from "./errors.js";
import { hex } from "./hex.js";
import type { PublicKey } from "./key.js";
import { publicKeyOf } from "./key.js";
import type { Receipt } from "./receipt.js";

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
    this.#publisher = publisher;
    this.#fingerprints =
      fingerprints && new Set([...fingerprints].map((text) => text.toLowerCase()));
  }

  /** Return the receipt in the body of a request, as received. Throws `WebhookError`. */
  async verify(body: Uint8Array | ArrayBuffer | string): Promise<Receipt> {
    const bytes = body instanceof ArrayBuffer ? new Uint8Array(body) : body;
    const { receipt, message, signature } = signedParts(bytes);
    const key = keyOf(receipt);
    if (key.algorithm !== receipt.signatureAlgorithm) {
      const detail = `the key is for ${key.algorithm}, not ${String(receipt.signatureAlgorithm)}`;
      throw new WebhookError("key_algorithm_mismatch", detail);
    }
    const fingerprint = hex(await backend.sha256(key.der));
    if (this.#fingerprints && !this.#fingerprints.has(fingerprint)) {
      throw new WebhookError("client_key_unknown", `the key ${fingerprint} isn't accepted`);
    }
    const { publisher } = receipt.content;
    if (this.#publisher !== undefined && publisher !== this.#publisher) {
      throw new WebhookError("malformed", `the receipt is for ${JSON.stringify(publisher)}`);
    }
    if (!(await isValid(key, message, signature))) {
      throw new WebhookError("bad_signature", "the signature isn't the key's over the receipt");
    }
    return receipt;
  }
}

function signedParts(body: Uint8Array | string): {
  receipt: Receipt;
  message: Uint8Array;
  signature: Uint8Array;
} {
  try {
    const receipt = parse(body) as Receipt;
    const { signature, signatureAlgorithm: _, ...members } = receipt;
    const bytes = fromBase64(signature);
    if (!bytes) throw new CanonicalError("the signature isn't base64");
    if (
      typeof receipt.client.publicKey !== "string" ||
      typeof receipt.content.publisher !== "string"
    ) {
      throw new CanonicalError("client.publicKey or content.publisher isn't a text");
    }
    return { receipt, message: canonicalize(members), signature: bytes };
  } catch (error) {
    // A TypeError is that of a member that is absent.
    if (!(error instanceof CanonicalError) && !(error instanceof TypeError)) throw error;
    throw new WebhookError("malformed", `isn't a receipt: ${error.message}`, { cause: error });
  }
}

function keyOf(receipt: Receipt): PublicKey {
  try {
    return publicKeyOf(receipt.client.publicKey);
  } catch (error) {
    throw new WebhookError("bad_public_key", (error as Error).message, { cause: error });
  }
}

async function isValid(
  key: PublicKey,
  message: Uint8Array,
  signature: Uint8Array,
): Promise<boolean> {
  try {
    return await backend.verify(key, message, signature);
  } catch (error) {
    if (!(error instanceof KeyError)) throw error;
    throw new WebhookError("bad_public_key", error.message, { cause: error });
  }
}
