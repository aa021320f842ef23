import assert from "node:assert/strict";
import { test } from "node:test";

import { DEFAULT_LIMITS } from "receipts-client";

import { backoffMs, retryAfterMs } from "../dist/backoff.js";
import { Pace } from "../dist/pace.js";

test("the back-off doubles up to its bound, and is random between its bounds", () => {
  const bounds = Array.from({ length: 12 }, (_, index) => backoffMs(index + 1, 1, DEFAULT_LIMITS));
  assert.deepEqual(bounds.slice(0, 4), [400, 800, 1_600, 3_200]);
  assert.equal(bounds.at(-1), 30_000);
  assert.equal(backoffMs(1, 0, DEFAULT_LIMITS), 200);
  assert.equal(backoffMs(9, 0.5, DEFAULT_LIMITS), 15_100);
  assert.equal(backoffMs(5_000, 1, DEFAULT_LIMITS), 30_000);
  assert.equal(backoffMs(1, 1, { ...DEFAULT_LIMITS, retryDelayMsMax: 10 }), 200);
});

test("Retry-After is a number of seconds or a date", () => {
  const now = Date.parse("2026-11-25T12:00:00Z");
  assert.equal(retryAfterMs("7", now), 7_000);
  assert.equal(retryAfterMs(" 0 ", now), 0);
  assert.equal(retryAfterMs("Wed, 25 Nov 2026 12:00:05 GMT", now), 5_000);
  assert.equal(retryAfterMs("Wed, 25 Nov 2026 11:00:05 GMT", now), 0);
  for (const nonsense of [null, "", "soon", "-5"]) assert.equal(retryAfterMs(nonsense, now), 0);
});

test("requests that fail together count as one failure", () => {
  const pace = new Pace({ ...DEFAULT_LIMITS, retryDelayMsMin: 1_000, retryDelayMsMax: 1_000_000 });
  const begunAt = performance.now();
  for (let count = 0; count < 30; count++) pace.fail(begunAt, 0, 1);
  assert.ok(pace.pausedUntil < begunAt + 60_000);
  for (let count = 0; count < 30; count++) pace.fail(performance.now(), 0, 1);
  assert.ok(pace.pausedUntil > begunAt + 60_000);
});

test("the end of a pause isn't before Retry-After", () => {
  const pace = new Pace(DEFAULT_LIMITS);
  const begunAt = performance.now();
  pace.fail(begunAt, 60_000, 1);
  pace.resume();
  assert.ok(pace.pausedUntil >= begunAt + 60_000);
  const free = new Pace(DEFAULT_LIMITS);
  free.fail(begunAt, 0, 20);
  free.resume();
  assert.ok(free.pausedUntil <= performance.now());
});
