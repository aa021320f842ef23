// The parts of DER (X.690) that keys and signatures have.

/** An element: its tag, and where its content begins and ends. */
export interface Element {
  readonly tag: number;
  readonly start: number;
  readonly end: number;
}

export const INTEGER = 0x02;
export const BIT_STRING = 0x03;
export const SEQUENCE = 0x30;

/** Return the elements from `start` to `end`, or `undefined` if the bytes aren't DER. */
export function elements(bytes: Uint8Array, start: number, end: number): Element[] | undefined {
  const found: Element[] = [];
  let position = start;
  while (position < end) {
    const element = elementAt(bytes, position, end);
    if (!element) return undefined;
    found.push(element);
    position = element.end;
  }
  return found;
}

function elementAt(bytes: Uint8Array, start: number, end: number): Element | undefined {
  const tag = bytes[start];
  let length = bytes[start + 1];
  if (tag === undefined || length === undefined) return undefined;
  let position = start + 2;
  if (length >= 0x80) {
    const count = length - 0x80;
    // Longer than two bytes is no key and no signature; a short form in a long one isn't DER.
    if (count < 1 || count > 2 || position + count > end) return undefined;
    length = count === 1 ? bytes[position]! : bytes[position]! * 256 + bytes[position + 1]!;
    if (length < (count === 1 ? 0x80 : 0x100)) return undefined;
    position += count;
  }
  return position + length <= end ? { tag, start: position, end: position + length } : undefined;
}

/** Return r and s of an ECDSA signature in DER as 32 bytes each, or `undefined`. */
export function rawSignature(der: Uint8Array): Uint8Array | undefined {
  const [sequence, ...behind] = elements(der, 0, der.length) ?? [];
  if (sequence?.tag !== SEQUENCE || behind.length) return undefined;
  const integers = elements(der, sequence.start, sequence.end);
  if (integers?.length !== 2) return undefined;
  const raw = new Uint8Array(64);
  for (const [index, integer] of integers.entries()) {
    let { start } = integer;
    const isPadded = der[start] === 0 && integer.end - start > 1;
    // Negative, or with a needless zero.
    if (der[start]! >= 0x80 || (isPadded && der[start + 1]! < 0x80)) return undefined;
    if (isPadded) start++;
    const length = integer.end - start;
    if (integer.tag !== INTEGER || length < 1 || length > 32) return undefined;
    raw.set(der.subarray(start, integer.end), 32 * index + 32 - length);
  }
  return raw;
}
