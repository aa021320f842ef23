import { backend } from "#crypto";

import { canonicalHost, entryIdOf, hostOf } from "./canonical-url.js";
import { UseError } from "./errors.js";
import { hex } from "./hex.js";
import { PURPOSES, type Purpose, type Receipt, USAGE_EXTRAS, type UsageExtra } from "./receipt.js";
import { isUuid, newId } from "./uuid.js";

/** One use of a piece of content. */
export type Use = UseDetails & UsedContent;

/** The content as received, without its Content-Encoding, or its hash. */
type UsedContent =
  | {
      readonly content: string | Uint8Array | ArrayBuffer;
      readonly contentHash?: undefined;
    }
  | {
      /** `sha256:` and 64 hexadecimal digits: the SHA-256 of what `content` would be. */
      readonly contentHash: string;
      readonly content?: undefined;
    };

interface UseDetails extends Readonly<Partial<Record<UsageExtra, string | undefined>>> {
  /** http or https URL of the content. */
  readonly url: string;
  readonly purpose: Purpose;
  /** The use case in a few words. */
  readonly context: string;
  /** Domain of the publisher; the URL's host, in ASCII form, unless given. */
  readonly publisher?: string | undefined;
  /** The publisher's entry; the UUIDv5 of the URL's canonical form unless given. */
  readonly entryId?: string | undefined;
  /** A new UUIDv7 unless given. */
  readonly receiptId?: string | undefined;
  /** Now unless given. */
  readonly timestamp?: Date | undefined;
}

/** The members of a receipt that its use decides. */
export type UseMembers = Pick<Receipt, "receiptId" | "timestamp" | "content" | "usage">;

// The compiler compares the names with the type.
const MEMBERS: Record<keyof Use, true> = {
  url: true,
  purpose: true,
  context: true,
  content: true,
  contentHash: true,
  publisher: true,
  entryId: true,
  receiptId: true,
  timestamp: true,
  ...(Object.fromEntries(USAGE_EXTRAS.map((name) => [name, true])) as Record<UsageExtra, true>),
};
const LABEL = /^[0-9a-z](?:[-0-9a-z]*[0-9a-z])?$/;
const HASH = /^sha256:[0-9a-fA-F]{64}$/;
const TEXT_BYTES_MAX = 4_096;
const URL_BYTES_MAX = 2_048;
const utf8 = new TextEncoder();

/** Return the members of a receipt that a use decides. Throws `UseError`. */
export async function membersOf(use: Use): Promise<UseMembers> {
  const unknown = unknownNameOf(use, MEMBERS);
  if (unknown) throw new UseError(`a use has no member ${unknown}`);
  const url = textOf("url", use.url, URL_BYTES_MAX);
  const host = hostOf(url);
  if (!(PURPOSES as readonly unknown[]).includes(use.purpose)) {
    throw new UseError(`purpose is ${quoted(use.purpose)}: write one of ${PURPOSES.join(", ")}`);
  }
  const usage: Record<string, string> = {
    purpose: use.purpose,
    context: filledText("context", use.context),
  };
  for (const name of USAGE_EXTRAS) {
    if (use[name] !== undefined) usage[name] = textOf(name, use[name]);
  }
  const receiptId = use.receiptId === undefined ? newId() : uuidOf("receiptId", use.receiptId);
  const timestamp = timestampOf(use.timestamp);
  const content = {
    entryId: use.entryId === undefined ? await entryIdOf(url) : uuidOf("entryId", use.entryId),
    url,
    contentHash: await hashOf(use),
    publisher: publisherOf(use.publisher, host),
  };
  return { receiptId, timestamp, content, usage: usage as unknown as Receipt["usage"] };
}

/** Return the first name of an object that isn't known, with the known names; or `undefined`. */
export function unknownNameOf(given: object, allowed: object): string | undefined {
  const name = Object.keys(given).find((key) => !Object.hasOwn(allowed, key));
  return name && `${quoted(name)}: write one of ${Object.keys(allowed).join(", ")}`;
}

/** Return a text of a receipt. Throws `UseError` if it can't be one. */
export function textOf(name: string, value: unknown, bytesMax = TEXT_BYTES_MAX): string {
  if (typeof value !== "string") throw new UseError(`${name} is ${quoted(value)}: give a string`);
  if (!value.isWellFormed()) throw new UseError(`${name} has half a surrogate pair: replace it`);
  // A code unit is at most three bytes.
  if (value.length * 3 > bytesMax && utf8.encode(value).length > bytesMax) {
    throw new UseError(`${name} has more than ${bytesMax} bytes in UTF-8: shorten it`);
  }
  return value;
}

/** Return a text that isn't empty. Throws `UseError`. */
export function filledText(name: string, value: unknown): string {
  const text = textOf(name, value);
  if (!text.trim()) throw new UseError(`${name} is empty: write at least a word`);
  return text;
}

/** Return a UUID. Throws `UseError` if the value isn't one. */
export function uuidOf(name: string, value: unknown): string {
  if (!isUuid(value))
    throw new UseError(`${name} is ${quoted(value)}: give a UUID of 36 characters`);
  return value.toLowerCase();
}

function publisherOf(publisher: unknown, host: string): string {
  const name = canonicalHost(textOf("publisher", publisher === undefined ? host : publisher));
  if (!name?.split(".").every((label) => LABEL.test(label))) {
    if (publisher === undefined) {
      const advice = "give the publisher, a parent domain of it whose labels have letters, digits";
      throw new UseError(`url is on ${quoted(host)}: ${advice} and hyphens only`);
    }
    throw new UseError(`publisher is ${quoted(publisher)}: write a domain name, like news.example`);
  }
  if (!`.${host}`.endsWith(`.${name}`)) {
    throw new UseError(`url is on ${host}, which isn't ${quoted(name)} or a subdomain of it`);
  }
  return name;
}

async function hashOf({ content, contentHash }: UsedContent): Promise<string> {
  if ((content === undefined) === (contentHash === undefined)) {
    throw new UseError("give either content or contentHash");
  }
  if (contentHash !== undefined) {
    if (typeof contentHash === "string" && HASH.test(contentHash)) return contentHash;
    throw new UseError("contentHash: write `sha256:` and 64 hexadecimal digits");
  }
  return `sha256:${hex(await backend.sha256(bytesOf(content)))}`;
}

function bytesOf(content: unknown): Uint8Array {
  if (typeof content === "string") {
    if (!content.isWellFormed())
      throw new UseError("content has half a surrogate pair: give its bytes");
    return utf8.encode(content);
  }
  if (content instanceof Uint8Array) return content;
  if (content instanceof ArrayBuffer) return new Uint8Array(content);
  throw new UseError("content: give a string, a Uint8Array or an ArrayBuffer");
}

function timestampOf(value: Date | undefined): string {
  if (value === undefined) return new Date().toISOString();
  if (!(value instanceof Date) || Number.isNaN(value.getTime())) {
    throw new UseError("timestamp: give a valid Date");
  }
  return value.toISOString();
}

function quoted(value: unknown): string {
  return typeof value === "string" ? JSON.stringify(value.slice(0, 200)) : String(value);
}
