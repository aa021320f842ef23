// Signed acknowledgements (docs/acknowledgements.md).

import { backend } from "#crypto";

import { membersOf } from "./answer.js";
import { fromBase64, fromBase64Url } from "./base64.js";
import { canonicalize } from "./canonical.js";
import { concatenate } from "./concatenate.js";
import { hex } from "./hex.js";
import type { PublicKey } from "./key.js";
import { ed25519Key } from "./key.js";
import { isValid } from "./verification.js";

/** The gateway's signed proof that it had the bytes of a batch, and when. */
export interface Acknowledgement {
  /** `sha256:` and the SHA-256 of the batch's bytes, in hexadecimal. */
  readonly requestDigest: string;
  readonly batchId: string;
  readonly receiptCount: number;
  readonly logPosition: {
    readonly epoch: number;
    readonly partition: number;
    readonly offset: number;
  };
  readonly receivedAt: string;
  /** `kid` of the key in `/.well-known/receipts-keys.json`. */
  readonly keyId: string;
  readonly outcome: string;
  /** From the members above to the root of a hash tree, if the gateway signed several together. */
  readonly path?: readonly ({ readonly left: string } | { readonly right: string })[];
  /** Ed25519 in base64, over the other members in canonical form, or over the tree's root. */
  readonly signature: string;
  readonly [name: string]: unknown;
}

/** A batch that the gateway acknowledged. */
export interface AcknowledgedBatch {
  readonly batchId: string;
  /** IDs of its receipts, in their order. */
  readonly receiptIds: readonly string[];
  /** Verified with the gateway's published keys. */
  readonly acknowledgement: Acknowledgement;
  /** The bytes that `requestDigest` is of. */
  readonly body: Uint8Array;
}

/** A batch, as it is sent. */
export interface BatchToSend {
  readonly batchId: string;
  readonly receiptCount: number;
  readonly body: Uint8Array;
}

// As long as the document may be cached. A key that leaked is removed from it.
const KEYS_AGE_MS_MAX = 3_600_000;

/** The published keys of a gateway. */
export class PublishedKeys {
  readonly #fetch: () => Promise<Uint8Array>;
  #keys = new Map<string, PublicKey>();
  #fetchedAt = -Infinity;

  /** `fetch` returns the JWK Set. */
  constructor(fetch: () => Promise<Uint8Array>) {
    this.#fetch = fetch;
  }

  /**
   * Return the acknowledgement in the members of a 202. Throws an error if it isn't one of exactly
   * this batch by a published key, and what `fetch` throws.
   */
  async verify(
    { acknowledgement }: Readonly<Record<string, unknown>>,
    { batchId, receiptCount, body }: BatchToSend,
  ): Promise<Acknowledgement> {
    const { signature, path, ...signed } = Object(acknowledgement) as Record<string, unknown>;
    const bytes = typeof signature === "string" ? fromBase64(signature) : undefined;
    if (!bytes) throw new Error("the 202 has no signed acknowledgement");
    const requestDigest = `sha256:${hex(await backend.sha256(body))}`;
    for (const [name, value] of Object.entries({ requestDigest, batchId, receiptCount })) {
      if (signed[name] !== value) {
        throw new Error(`the acknowledgement has another ${name}`);
      }
    }
    const key = await this.#key(String(signed["keyId"]));
    const leaf = canonicalize(signed);
    const message = path === undefined ? leaf : await treeRoot(leaf, path);
    if (!key || !message || !(await isValid(key, message, bytes))) {
      const keyId = JSON.stringify(signed["keyId"]);
      throw new Error(`the signature isn't that of the published key ${keyId}`);
    }
    return acknowledgement as Acknowledgement;
  }

  async #key(keyId: string): Promise<PublicKey | undefined> {
    const isOld = performance.now() - this.#fetchedAt > KEYS_AGE_MS_MAX;
    if (isOld || !this.#keys.has(keyId)) {
      this.#keys = keysOf(await this.#fetch());
      this.#fetchedAt = performance.now();
    }
    return this.#keys.get(keyId);
  }
}

/** Return the root of the hash tree (RFC 9162) that a path leads to, or `undefined`. */
async function treeRoot(leaf: Uint8Array, path: unknown): Promise<Uint8Array | undefined> {
  if (!Array.isArray(path)) return undefined;
  let node = await backend.sha256(concatenate([Uint8Array.of(0), leaf]));
  for (const step of path) {
    const [[side, text] = [], ...others] = Object.entries(Object(step));
    const sibling = typeof text === "string" ? fromBase64(text) : undefined;
    if (sibling?.length !== node.length || others.length > 0) return undefined;
    if (side !== "left" && side !== "right") return undefined;
    const pair = side === "left" ? [sibling, node] : [node, sibling];
    node = await backend.sha256(concatenate([Uint8Array.of(1), ...pair]));
  }
  return node;
}

function keysOf(document: Uint8Array): Map<string, PublicKey> {
  const { keys } = membersOf(document) ?? {};
  if (!Array.isArray(keys)) throw new Error("the published keys aren't a JWK Set");
  const found = new Map<string, PublicKey>();
  for (const { kty, crv, kid, x } of keys.map(Object) as Record<string, unknown>[]) {
    const point = typeof x === "string" ? fromBase64Url(x) : undefined;
    if (kty === "OKP" && crv === "Ed25519" && typeof kid === "string" && point?.length === 32) {
      found.set(kid, ed25519Key(point));
    }
  }
  return found;
}
