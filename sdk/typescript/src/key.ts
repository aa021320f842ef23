import { fromBase64, toBase64 } from "./base64.js";
import { concatenate } from "./concatenate.js";
import type { Element } from "./der.js";
import { BIT_STRING, elements, INTEGER, SEQUENCE } from "./der.js";
import { KeyError } from "./errors.js";
import { hex } from "./hex.js";
import { isOfSmallOrder } from "./small-order.js";

/** Algorithms of signatures. */
export const ALGORITHMS = ["Ed25519", "RSA-2048", "ECDSA-P256"] as const;

/** An algorithm of signatures. */
export type Algorithm = (typeof ALGORITHMS)[number];

/** A public key: its algorithm, and its SPKI in DER. */
export interface PublicKey {
  readonly algorithm: Algorithm;
  readonly der: Uint8Array;
}

// Algorithms by the content of their identifier in SPKI and PKCS#8: RSA's has a NULL, and ECDSA's
// the curve P-256.
const KINDS: Readonly<Record<string, Algorithm>> = {
  "06032b6570": "Ed25519",
  "06092a864886f70d0101010500": "RSA-2048",
  "06072a8648ce3d020106082a8648ce3d030107": "ECDSA-P256",
};
/** No usable key has a longer PEM. */
const PUBLIC_PEM_MAX = 1_024;
/** Programs that read lines in pieces take a longer piece of spaces for an empty line. */
const SPACED_LINE_MAX = 128;
/** Advice in errors. */
export const MAKE_KEY = "`openssl genpkey -algorithm ed25519 -out client.key` makes one";

const ED25519_SPKI_HEAD = Uint8Array.from([
  0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
]);
const KINDS_TEXT = "Ed25519, RSA with 2048 bits and an exponent above 65536, or ECDSA P-256";

/** Return a public key in SPKI PEM. Throws `KeyError` for what the service refuses in receipts. */
export function publicKeyOf(pem: string): PublicKey {
  if (pem.length > PUBLIC_PEM_MAX) throw new KeyError("the PEM is longer than any usable key's");
  const der = fromPem(pem, "PUBLIC KEY");
  const [sequence, ...behind] = elements(der, 0, der.length) ?? [];
  if (sequence?.tag !== SEQUENCE || behind.length)
    throw new KeyError("the key isn't an SPKI in DER");
  const [identifier, bits, ...further] = elements(der, sequence.start, sequence.end) ?? [];
  const algorithm = algorithmOf(der, identifier);
  // The first byte counts the unused bits.
  if (bits?.tag !== BIT_STRING || further.length || der[bits.start] !== 0)
    throw new KeyError("the key isn't an SPKI in DER");
  if (!IS_USABLE[algorithm](der.subarray(bits.start + 1, bits.end))) throw otherKind();
  return { algorithm, der };
}

/** Return the public key of a point of edwards25519 (RFC 8410, section 4). */
export function ed25519Key(point: Uint8Array): PublicKey {
  return { algorithm: "Ed25519", der: concatenate([ED25519_SPKI_HEAD, point]) };
}

/** Return the algorithm of a private key in DER (PKCS#8). Throws `KeyError`. */
export function privateKeyAlgorithm(der: Uint8Array): Algorithm {
  const [sequence] = elements(der, 0, der.length) ?? [];
  const [, identifier] = sequence ? (elements(der, sequence.start, sequence.end) ?? []) : [];
  return algorithmOf(der, identifier);
}

/**
 * Return the bytes of a PEM (RFC 7468) with a label and nothing around it, as the service reads it.
 * Throws `KeyError`.
 */
export function fromPem(pem: string, label: string): Uint8Array {
  const block = new RegExp(
    `^-----BEGIN ${label}-----[ \\t\\r\\f]{0,127}\\n` +
      `((?:[^-\\n][^\\n]*\\n)+)-----END ${label}-----[ \\t\\r\\f\\n]*$`,
  );
  const body = block.exec(pem)?.[1];
  if (body === undefined)
    throw new KeyError(`the key isn't one PEM that begins with -----BEGIN ${label}-----`);
  let text = "";
  for (const line of body.slice(0, -1).split("\n")) {
    const content = line.replace(/\r$/, "");
    const isTooSpaced = /[ \t]/.test(content) && line.length > SPACED_LINE_MAX;
    if (isTooSpaced || /^[ \t\r\f]*$/.test(line))
      throw new KeyError("remove empty lines and spaces from the PEM");
    text += content.replace(/[ \t]/g, "");
  }
  const der = fromBase64(text);
  // `atob` also reads unused bits that are set.
  if (!der || toBase64(der) !== text)
    throw new KeyError("the PEM's body must be padded base64");
  return der;
}

/** Return a PEM of an SPKI in DER. */
export function publicPem(der: Uint8Array): string {
  const lines = toBase64(der).match(/.{1,64}/g) ?? [];
  return ["-----BEGIN PUBLIC KEY-----", ...lines, "-----END PUBLIC KEY-----", ""].join("\n");
}

/** Return the error for a key of another kind. */
export function otherKind(): KeyError {
  return new KeyError(`the key is of another kind than ${KINDS_TEXT}: ${MAKE_KEY}`);
}

function algorithmOf(der: Uint8Array, identifier: Element | undefined): Algorithm {
  if (identifier?.tag !== SEQUENCE) throw new KeyError("the key isn't one in DER");
  const algorithm = KINDS[hex(der.subarray(identifier.start, identifier.end))];
  if (!algorithm) throw otherKind();
  return algorithm;
}

/** Whether the service accepts a key, by its bits in the SPKI. */
const IS_USABLE: Readonly<Record<Algorithm, (key: Uint8Array) => boolean>> = {
  Ed25519: (point) => point.length === 32 && isReduced(point) && !isOfSmallOrder(point),
  "RSA-2048": isUsableRsa,
  // Uncompressed or compressed.
  "ECDSA-P256": (point) =>
    point.length === 65 ? point[0] === 4 : point.length === 33 && (point[0]! & ~1) === 2,
};

/** Whether the y coordinate of a point of edwards25519 is less than the field's prime. */
function isReduced(point: Uint8Array): boolean {
  const y = BigInt(`0x${hex(Uint8Array.from(point).reverse())}`) & (2n ** 255n - 1n);
  return y < 2n ** 255n - 19n;
}

function isUsableRsa(key: Uint8Array): boolean {
  const [sequence, ...behind] = elements(key, 0, key.length) ?? [];
  if (sequence?.tag !== SEQUENCE || behind.length) return false;
  const numbers = elements(key, sequence.start, sequence.end) ?? [];
  const isPositive = ({ tag, start, end }: Element) =>
    tag === INTEGER && end > start && key[start]! < 0x80;
  const isPadded = ({ start, end }: Element) =>
    end > start + 1 && key[start] === 0 && key[start + 1]! < 0x80;
  if (numbers.length !== 2 || !numbers.every(isPositive) || numbers.some(isPadded)) return false;
  const [modulus, exponent] = numbers.map(({ start, end }) => {
    return BigInt(`0x${hex(key.subarray(start, end))}`);
  });
  return modulus! >> 2047n === 1n && exponent! > 65_536n && (modulus! & exponent! & 1n) === 1n;
}
