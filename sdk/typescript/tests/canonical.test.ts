import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";

import oracle from "canonicalize";
import fc from "fast-check";
import { CanonicalError, canonicalize, parse } from "receipts-client";

import { vectors } from "./vectors.js";

const text = (value: unknown) => Buffer.from(canonicalize(value)).toString();

test("the canonical form is that of every vector", () => {
  type Vector = { name: string; input: string; canonical: string; sha256: string };
  for (const { name, input, canonical, sha256 } of vectors<Vector>("canonical")) {
    const bytes = canonicalize(parse(input));
    assert.equal(Buffer.from(bytes).toString(), canonical, name);
    assert.equal(createHash("sha256").update(bytes).digest("hex"), sha256, name);
    assert.deepEqual(canonicalize(parse(Buffer.from(input))), bytes, name);
  }
});

test("a text without a canonical form is refused", () => {
  for (const { name, input } of vectors<{ name: string; input: string }>("refused")) {
    assert.throws(() => canonicalize(parse(Buffer.from(input))), CanonicalError, name);
  }
});

test("numbers are written as the vectors have them", () => {
  for (const { bits, text: expected } of vectors<{ bits: string; text: string }>("numbers")) {
    const view = new DataView(new ArrayBuffer(8));
    view.setBigUint64(0, BigInt(`0x${bits}`));
    assert.equal(text(view.getFloat64(0)), expected, bits);
  }
});

test("the canonical form agrees with another implementation, and parses to the same value", () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6, stringUnit: "binary" }), (value) => {
      const canonical = text(value);
      assert.equal(canonical, oracle(value));
      assert.equal(text(parse(canonical)), canonical);
    }),
    { numRuns: 2_000 },
  );
});

test("every double is written as another implementation writes it", () => {
  fc.assert(
    fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
      assert.equal(text(value), oracle(value));
    }),
    { numRuns: 2_000 },
  );
});

test("a value that isn't JSON is refused", () => {
  class Point {
    x = 1;
  }
  const cycle: unknown[] = [];
  cycle.push(cycle);
  const wrong = [
    undefined,
    1n,
    Symbol("a"),
    () => 1,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    "\ud800",
    { "\udc00": 1 },
    { a: undefined },
    [undefined],
    new Array(1),
    new Date(0),
    new Map(),
    new Point(),
    Buffer.from("a"),
    cycle,
  ];
  for (const value of wrong) assert.throws(() => canonicalize(value), CanonicalError);
});

test("a member named __proto__ is one like others", () => {
  assert.equal(text(parse('{"__proto__":{"a":1},"b":2}')), '{"__proto__":{"a":1},"b":2}');
  assert.throws(() => parse('{"__proto__":1,"__proto__":2}'), CanonicalError);
  assert.equal(text(Object.assign(Object.create(null), { b: 1, a: 2 })), '{"a":2,"b":1}');
});

test("colons and quotes within texts aren't counted as members", () => {
  const value = { 'a":"': ':"\\', b: ["::", { "\\": ":" }] };
  assert.deepEqual(parse(JSON.stringify(value)), value);
});

test("bytes that aren't UTF-8 are refused", () => {
  assert.throws(() => parse(Buffer.from([0x22, 0xff, 0x22])), CanonicalError);
});
