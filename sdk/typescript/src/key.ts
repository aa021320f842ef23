import { fromBase64, toBase64 } from "./base64.js";
import { concatenate } from "./concatenate.js";
import type { Element } from "./der.js";
import { BIT_STRING, elements, INTEGER, OBJECT_IDENTIFIER, SEQUENCE } from "./der.js";
import { KeyError } from "./errors.js";
import { hex } from "./hex.js";

/** Algorithms of signatures. */
export const ALGORITHMS = ["Ed25519", "RSA-2048", "ECDSA-P256"] as const;

/** An algorithm of signatures. */
export type Algorithm = (typeof ALGORITHMS)[number];

/** A public key: its algorithm, and its SPKI in DER. */
export interface PublicKey {
  readonly algorithm: Algorithm;
  readonly der: Uint8Array;
}

const KINDS: Record<string, Algorithm> = {
  "2b6570": "Ed25519",
  "2a864886f70d010101": "RSA-2048",
  "2a8648ce3d0201": "ECDSA-P256",
};
/** Advice in errors. */
export const MAKE_KEY = "`openssl genpkey -algorithm ed25519 -out client.key` makes one";

const ED25519_SPKI_HEAD = Uint8Array.from([
  0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
]);
const P256 = "2a8648ce3d030107";
const KINDS_TEXT = "Ed25519, RSA with 2048 bits and an exponent above 65536, or ECDSA P-256";

/** Return a public key in PEM (SPKI). Throws `KeyError`. */
export function publicKeyOf(pem: string): PublicKey {
  const der = fromPem(pem, "PUBLIC KEY");
  const [sequence, ...behind] = elements(der, 0, der.length) ?? [];
  if (sequence?.tag !== SEQUENCE || behind.length)
    throw new KeyError("the key isn't an SPKI in DER");
  const [identifier, bits] = elements(der, sequence.start, sequence.end) ?? [];
  const algorithm = algorithmOf(der, identifier);
  if (bits?.tag !== BIT_STRING) throw new KeyError("the key isn't an SPKI in DER");
  if (algorithm === "RSA-2048" && !isUsableRsa(der, bits)) throw otherKind();
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

/** Return the bytes of a PEM (RFC 7468) with a label. Throws `KeyError`. */
export function fromPem(pem: string, label: string): Uint8Array {
  const parts = pem.trim().split(/\r?\n/);
  const text = parts.slice(1, -1).join("");
  const isPem =
    parts[0] === `-----BEGIN ${label}-----` && parts.at(-1) === `-----END ${label}-----`;
  const der = isPem ? fromBase64(text) : undefined;
  if (!der?.length)
    throw new KeyError(`the key isn't a PEM that begins with -----BEGIN ${label}-----`);
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
  const [kind, curve] = elements(der, identifier.start, identifier.end) ?? [];
  if (kind?.tag !== OBJECT_IDENTIFIER) throw new KeyError("the key isn't one in DER");
  const algorithm = KINDS[hex(der.subarray(kind.start, kind.end))];
  const curveText = curve ? hex(der.subarray(curve.start, curve.end)) : "";
  if (!algorithm || (algorithm === "ECDSA-P256" && curveText !== P256)) throw otherKind();
  return algorithm;
}

/** Return whether an RSA key is one that the service accepts. */
function isUsableRsa(der: Uint8Array, bits: Element): boolean {
  // The first byte counts the unused bits.
  const [key] = elements(der, bits.start + 1, bits.end) ?? [];
  const numbers = key ? (elements(der, key.start, key.end) ?? []) : [];
  if (numbers.length !== 2 || numbers.some(({ tag }) => tag !== INTEGER)) return false;
  const [modulus, exponent] = numbers.map(({ start, end }) => {
    return BigInt(`0x${hex(der.subarray(start, end))}`);
  });
  return modulus! >> 2047n === 1n && exponent! > 65_536n;
}
