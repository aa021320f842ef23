import { backend } from "#crypto";

import { hex } from "./hex.js";

const PATTERN = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
// The namespace of URLs (RFC 9562, section 6.6).
const URL_NAMESPACE = Uint8Array.from([
  0x6b, 0xa7, 0xb8, 0x11, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8,
]);
const utf8 = new TextEncoder();

/** Return whether a text is a UUID of 36 characters. */
export function isUuid(text: unknown): text is string {
  return typeof text === "string" && PATTERN.test(text);
}

/** Return a new UUIDv7 (RFC 9562, section 5.7). */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const now = Date.now();
  const view = new DataView(bytes.buffer);
  view.setUint16(0, Math.floor(now / 2 ** 32));
  view.setUint32(2, now % 2 ** 32);
  return uuidText(bytes, 7);
}

/** Return the UUIDv5 of a URL (RFC 9562, section 5.5). */
export async function urlId(url: string): Promise<string> {
  const name = utf8.encode(url);
  const message = new Uint8Array(URL_NAMESPACE.length + name.length);
  message.set(URL_NAMESPACE);
  message.set(name, URL_NAMESPACE.length);
  return uuidText((await backend.sha1(message)).slice(0, 16), 5);
}

function uuidText(bytes: Uint8Array, version: number): string {
  bytes[6] = (bytes[6]! & 0x0f) | (version << 4);
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const text = hex(bytes);
  const parts = [text.slice(0, 8), text.slice(8, 12), text.slice(12, 16), text.slice(16, 20)];
  return `${parts.join("-")}-${text.slice(20)}`;
}
