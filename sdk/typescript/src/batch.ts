// Signed receipts and batches, as bytes in canonical form.

import { canonicalize, canonicalText } from "./canonical.js";
import { concatenate } from "./concatenate.js";
import { UseError } from "./errors.js";
import type { Receipt } from "./receipt.js";
import type { Signer } from "./signers.js";
import { signatureText } from "./signers.js";
import type { UseMembers } from "./use.js";

const RECEIPT_BYTES_MAX = 65_536;
const utf8 = new TextEncoder();
const utf8Text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Return the signed receipt of a use's members, in canonical form. `client` is the canonical form
 * of the member `client`.
 */
export async function signedReceipt(
  members: UseMembers,
  client: string,
  signer: Signer,
): Promise<Uint8Array> {
  // The members in their canonical order; `signature` and `signatureAlgorithm` come in between.
  const { receiptId, timestamp, content, usage } = members;
  const head = `{"client":${client},"content":${canonicalText(content)},"receiptId":"${receiptId}"`;
  const tail = `,"timestamp":"${timestamp}","usage":${canonicalText(usage)},"version":"1.0.0"}`;
  const signature = await signatureText(signer, utf8.encode(head + tail));
  const receipt = utf8.encode(head + signatureMembers(signature, signer) + tail);
  if (receipt.length > RECEIPT_BYTES_MAX) {
    throw new UseError(
      `the receipt has ${receipt.length} bytes: at most ${RECEIPT_BYTES_MAX} are allowed`,
    );
  }
  return receipt;
}

/** Return the body of a batch of receipts in canonical form. */
export async function signedBatch(
  batchId: string,
  receipts: readonly Uint8Array[],
  signer: Signer,
): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [utf8.encode(`{"batchId":"${batchId}","receipts":[`)];
  for (const [index, receipt] of receipts.entries()) {
    if (index) pieces.push(utf8.encode(","));
    pieces.push(receipt);
  }
  pieces.push(utf8.encode("]"));
  const tail = utf8.encode(`,"version":"1.0.0"}`);
  const signature = await signatureText(signer, concatenate([...pieces, tail]));
  return concatenate([...pieces, utf8.encode(signatureMembers(signature, signer)), tail]);
}

/**
 * Return a receipt signed by `signer`. Receipts that an ended process left may have another key, as
 * after a rotation, and a batch is signed by the one key of all its receipts. Only for receipts
 * that the service hasn't stored.
 */
export async function withKey(receipt: Uint8Array, signer: Signer): Promise<Uint8Array> {
  const members = JSON.parse(utf8Text.decode(receipt)) as Receipt;
  if (members.client.publicKey === signer.publicKey) return receipt;
  const client = canonicalText({ ...members.client, publicKey: signer.publicKey });
  return signedReceipt(members, client, signer);
}

/** Return the receipts of a batch, as `signedBatch` got them. */
export function receiptsOf(body: Uint8Array): Uint8Array[] {
  const { receipts } = JSON.parse(utf8Text.decode(body)) as { receipts: unknown[] };
  return receipts.map(canonicalize);
}

/** Return the ID of a receipt in canonical form. */
export function receiptIdOf(receipt: Uint8Array): string {
  return (JSON.parse(utf8Text.decode(receipt)) as { receiptId: string }).receiptId;
}

/** Return the IDs of a batch's receipts. */
export function receiptIdsOf(body: Uint8Array): string[] {
  const { receipts } = JSON.parse(utf8Text.decode(body)) as { receipts: { receiptId: string }[] };
  return receipts.map(({ receiptId }) => receiptId);
}

/** Return the IDs of receipts in bytes that can't be read as a whole. */
export function receiptIdsIn(bytes: Uint8Array): string[] {
  const text = new TextDecoder("latin1").decode(bytes);
  return [...text.matchAll(/"receiptId":"([-0-9a-f]{36})"/g)].map(([, receiptId]) => receiptId!);
}

function signatureMembers(signature: string, signer: Signer): string {
  return `,"signature":"${signature}","signatureAlgorithm":"${signer.algorithm}"`;
}
