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

/** Return the bytes of a base64url text without padding (section 5), or `undefined`. */
export function fromBase64Url(text: string): Uint8Array | undefined {
  if (!/^[-\w]*$/.test(text)) return undefined;
  const standard = text.replaceAll("-", "+").replaceAll("_", "/");
  return fromBase64(standard.padEnd(Math.ceil(text.length / 4) * 4, "="));
}
