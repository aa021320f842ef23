import { hex } from "./hex.js";

/** The y coordinates, less than 2^255, of the points of edwards25519 with an order of at most 8. */
const SMALL = new Set([
  "0000000000000000000000000000000000000000000000000000000000000000",
  "0100000000000000000000000000000000000000000000000000000000000000",
  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
  "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
  "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
  // The same as 0 and 1: these encodings aren't reduced modulo 2^255 - 19.
  "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
  "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
]);

/**
 * Return whether a point of edwards25519 has an order of at most 8, in any encoding. With such a
 * key, some signatures are valid for every message. The service rejects them (`verify_strict` of
 * ed25519-dalek).
 */
export function isOfSmallOrder(point: Uint8Array): boolean {
  const y = Uint8Array.from(point);
  y[31] = (y[31] ?? 0) & 0x7f;
  return SMALL.has(hex(y));
}
