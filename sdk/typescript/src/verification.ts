import { backend } from "#crypto";

import type { PublicKey } from "./key.js";
import { isOfSmallOrder } from "./small-order.js";

/**
 * Return whether a signature is the key's over a message, as the service decides it. Throws
 * `KeyError` for a key that isn't usable.
 */
export async function isValid(
  key: PublicKey,
  message: Uint8Array,
  signature: Uint8Array,
): Promise<boolean> {
  if (key.algorithm === "Ed25519") {
    const points = [key.der.subarray(-32), signature.subarray(0, 32)];
    if (points.some(isOfSmallOrder)) return false;
  }
  return backend.verify(key, message, signature);
}
