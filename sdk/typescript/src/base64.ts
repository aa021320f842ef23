// Base64 with padding (RFC 4648, section 4).

const PATTERN = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** Return the base64 of bytes. */
export function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

/** Return the bytes of a base64 text, or `undefined` if it isn't one. */
export function fromBase64(text: string): Uint8Array | undefined {
  if (!PATTERN.test(text)) return undefined;
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
