// What ends a batch: conformance/README.md, "Answers to a batch".

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";

import type { AcknowledgedBatch } from "receipts-client";
import { Client, Webhook } from "receipts-client";
import { FakeGateway } from "receipts-client/testing";

import { PublishedKeys } from "../dist/acknowledgement.js";
import { answerOf } from "../dist/answer.js";
import { clientOf, optionsFor, problem, USE } from "./fixtures.js";
import { vectors } from "./vectors.js";

const utf8 = new TextEncoder();

test("an answer means what the vectors have", () => {
  type Vector = {
    name: string;
    status: number;
    body: string;
    outcome: string;
    location?: string;
  };
  for (const { name, status, body, outcome, location } of vectors<Vector>("answers")) {
    const headers = new Headers(location ? { location } : {});
    const answer = answerOf({ status, headers, data: utf8.encode(body) }, "an ID");
    assert.equal(answer.kind, outcome, name);
    if (outcome === "retried") assert.match(answer.detail, new RegExp(`^status ${status}`));
    if (location) assert.ok(answer.detail.includes(location), answer.detail);
  }
});

test("a 202 ends a batch if its acknowledgement is one as the vectors have it", async () => {
  type Vector = { name: string; body: string; answer: string; keys: object; valid: boolean };
  for (const { name, body, answer, keys, valid } of vectors<Vector>("acknowledgements")) {
    const { batchId, receipts } = JSON.parse(body) as { batchId: string; receipts: unknown[] };
    const reply = { status: 202, headers: new Headers(), data: utf8.encode(answer) };
    const { kind, members } = answerOf(reply, batchId);
    const published = new PublishedKeys(async () => utf8.encode(JSON.stringify(keys)));
    const batch = { batchId, receiptCount: receipts.length, body: utf8.encode(body) };
    const isVerified = await published.verify(members, batch).then(
      () => true,
      () => false,
    );
    assert.equal(kind === "acknowledged" && isVerified, valid, name);
  }
});

test("acknowledgements are handed over with the bytes that they prove", async () => {
  const batches: AcknowledgedBatch[] = [];
  const { client, gateway } = clientOf({
    batchReceiptsMax: 2,
    batchDelayMs: 60_000,
    onAcknowledged: (batch) => {
      batches.push(batch);
      throw new Error("of the caller");
    },
  });
  const ids = [];
  for (let count = 0; count < 4; count++) ids.push(await client.record(USE));
  assert.ok(await client.flush());
  assert.deepEqual(
    batches.flatMap(({ receiptIds }) => receiptIds),
    ids,
  );
  for (const { batchId, body, acknowledgement, receiptIds } of batches) {
    assert.equal((await new Webhook().verifyAll(body)).length, 2);
    assert.equal(acknowledgement.batchId, batchId);
    assert.equal(acknowledgement.receiptCount, receiptIds.length);
  }
  assert.equal(gateway.receipts.length, 4);
  await client.close();
});

test("a batch waits while its acknowledgement can't be verified", async () => {
  const gateway = new FakeGateway();
  const logged: string[] = [];
  let requests = 0;
  const fetch = async (url: string, init: object) => {
    if (!url.endsWith(".json")) return gateway.fetch(url, init);
    return ++requests > 2 ? gateway.fetch(url, init) : new Response("<html>", { status: 404 });
  };
  const logger = { warn() {}, error: (message: string) => void logged.push(message) };
  const client = new Client(optionsFor(gateway, { fetch: fetch as never, logger }));
  const id = await client.submit(USE);
  // Sent three times, with one ID and the same bytes: it counts once.
  assert.deepEqual(new Set(gateway.receipts.map(({ receiptId }) => receiptId)), new Set([id]));
  assert.equal(client.state().retries, 2);
  assert.match(logged[0] ?? "", /unverified: GET .*receipts-keys.json: 404/);
  // The keys are cached.
  await client.submit(USE);
  assert.equal(requests, 3);
  await client.close();
});

test("what waits for people is an error in the log, and what passes a warning", async () => {
  const logged: string[] = [];
  const { client, gateway } = clientOf({
    logger: {
      warn: (message) => void logged.push(`warn ${message}`),
      error: (message) => void logged.push(`error ${message}`),
    },
  });
  const location = "https://elsewhere.example/login";
  gateway.answers.push(
    new Response("<html>", { status: 404 }),
    problem(404, "not_found"),
    new Response(null, { status: 301, headers: { location } }),
    problem(503, "overloaded"),
    problem(429, "rate_limited"),
  );
  await client.submit(USE);
  assert.match(logged[0] ?? "", /^error .*unexpected_answer: status 404/);
  assert.match(logged[1] ?? "", /^error .*not_found: status 404 scripted/);
  assert.match(
    logged[2] ?? "",
    /^error .*status 301, Location: https:\/\/elsewhere.example\/login/,
  );
  assert.match(logged[3] ?? "", /^warn .*overloaded/);
  assert.match(logged[4] ?? "", /^warn .*rate_limited/);
  await client.close();
});

test("a batch of one that a proxy finds too large waits", async () => {
  const { client, gateway } = clientOf();
  gateway.answers.push(new Response("<html>", { status: 413 }));
  await client.submit(USE);
  assert.equal(client.state().retries, 1);
  await client.close();
});

test("bodies are compressed, until the service can't read it", async () => {
  const gateway = new FakeGateway();
  const long = { ...USE, context: "x".repeat(2_000) };
  const requests: { encoding: string | undefined; body: Uint8Array; agent: string | undefined }[] =
    [];
  type Init = { headers: Record<string, string>; body: Uint8Array };
  const fetch = async (url: string, init: Init) => {
    const encoding = init.headers["Content-Encoding"];
    const agent = init.headers["User-Agent"];
    if (url.endsWith("/batch")) requests.push({ encoding, body: init.body, agent });
    return gateway.fetch(url, init as never);
  };
  const client = new Client(optionsFor(gateway, { fetch: fetch as never }));
  await client.submit(long);
  gateway.answers.push(problem(415, "unsupported_encoding"));
  await client.submit(long);
  await client.submit(long);
  assert.deepEqual(
    requests.map(({ encoding }) => encoding),
    ["gzip", "gzip", undefined, undefined],
  );
  const plain = gunzipSync(requests[1]?.body as Uint8Array);
  assert.deepEqual(plain, Buffer.from(requests[2]?.body as Uint8Array));
  const { version } = JSON.parse(readFileSync("package.json", "utf8")) as { version: string };
  assert.equal(requests[0]?.agent, `receipts-client-typescript/${version}`);
  await client.close();
});

test("the gateway for tests answers outcomes, explanations and failures", async () => {
  const { client, gateway } = clientOf();
  gateway.outcomes.push({ outcome: "rejected", receiptId: "a" });
  const found = [];
  for await (const { receiptId, cursor } of client.outcomes()) found.push([receiptId, cursor]);
  assert.deepEqual(found, [["a", "1"]]);
  gateway.explanation = { verdict: "accepted" };
  assert.deepEqual(await client.explain("{}"), { verdict: "accepted" });
  gateway.status = 503;
  await client.record(USE);
  assert.equal(await client.flush({ timeoutMs: 100 }), false);
  gateway.status = 202;
  assert.ok(await client.flush());
  await client.close();
});
