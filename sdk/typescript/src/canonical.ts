// The canonical form of JSON (RFC 8785, JCS).
//
// RFC 8785 takes ECMAScript's own rules for numbers, escapes and the order of names, so
// JSON.stringify writes numbers and texts, and sort() compares UTF-16 code units.

import { CanonicalError } from "./errors.js";

const DEPTH_MAX = 32;
const utf8 = new TextEncoder();
const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A value of JSON. */
export type Json =
  | string
  | number
  | boolean
  | null
  | readonly Json[]
  | { readonly [name: string]: Json };

/**
 * Return the canonical form of a JSON value as UTF-8.
 *
 * Throws `CanonicalError` for NaN, infinities, half a surrogate pair, more than 32 levels, and what
 * isn't JSON: `undefined`, a `bigint`, an object of a class.
 */
export function canonicalize(value: unknown): Uint8Array {
  return utf8.encode(canonicalText(value));
}

/** Return the canonical form as a text. Throws `CanonicalError`. */
export function canonicalText(value: unknown): string {
  return write(value, DEPTH_MAX);
}

/**
 * Return the JSON value of a text, or of its UTF-8.
 *
 * Throws `CanonicalError` for what isn't I-JSON (RFC 7493): two members of one name, a byte order
 * mark, bytes that aren't UTF-8. `canonicalize` refuses the rest.
 */
export function parse(text: Uint8Array | string): unknown {
  let value: unknown;
  let source: string;
  try {
    source = typeof text === "string" ? text : strictUtf8.decode(text);
    value = JSON.parse(source);
  } catch (error) {
    throw new CanonicalError(`isn't JSON: ${(error as Error).message}`, { cause: error });
  }
  // JSON.parse keeps the last of two members with one name, so the value has fewer than the text.
  if (countMembers(value, DEPTH_MAX) !== countColons(source)) {
    throw new CanonicalError("an object has two members of one name");
  }
  return value;
}

function write(value: unknown, depth: number): string {
  switch (typeof value) {
    case "string":
      return writeText(value);
    case "number":
      if (!Number.isFinite(value)) throw new CanonicalError(`${value} isn't a number of JSON`);
      return JSON.stringify(value);
    case "boolean":
      return value ? "true" : "false";
    case "object":
      if (value === null) return "null";
      if (depth === 0) throw tooDeep();
      return Array.isArray(value) ? writeArray(value, depth) : writeObject(value, depth);
    default:
      throw new CanonicalError(`${typeof value} isn't a type of JSON`);
  }
}

function writeText(text: string): string {
  if (!text.isWellFormed()) throw new CanonicalError("a text has half a surrogate pair");
  return JSON.stringify(text);
}

function writeArray(array: readonly unknown[], depth: number): string {
  let text = "[";
  for (let index = 0; index < array.length; index++) {
    if (index) text += ",";
    text += write(array[index], depth - 1);
  }
  return `${text}]`;
}

function writeObject(object: object, depth: number): string {
  const prototype: unknown = Object.getPrototypeOf(object);
  // The second condition is for plain objects of another realm.
  if (prototype !== Object.prototype && prototype !== null && !isRealmObject(prototype)) {
    throw new CanonicalError(`an object of the class ${object.constructor?.name} isn't JSON`);
  }
  let text = "{";
  for (const name of Object.keys(object).sort()) {
    if (text.length > 1) text += ",";
    text += `${writeText(name)}:${write((object as Record<string, unknown>)[name], depth - 1)}`;
  }
  return `${text}}`;
}

function isRealmObject(prototype: unknown): boolean {
  return (
    Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype as object, "isPrototypeOf")
  );
}

function countMembers(value: unknown, depth: number): number {
  if (typeof value !== "object" || value === null) return 0;
  if (depth === 0) throw tooDeep();
  let count = 0;
  if (!Array.isArray(value)) count += Object.keys(value).length;
  for (const member of Object.values(value)) count += countMembers(member, depth - 1);
  return count;
}

/** Count the colons outside of texts: a valid JSON text has one for each member. */
function countColons(text: string): number {
  let count = 0;
  for (let index = 0, inText = false; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    if (unit === 0x22) inText = !inText;
    else if (inText) index += unit === 0x5c ? 1 : 0;
    else if (unit === 0x3a) count++;
  }
  return count;
}

function tooDeep(): CanonicalError {
  return new CanonicalError(`nested deeper than ${DEPTH_MAX} arrays and objects`);
}
