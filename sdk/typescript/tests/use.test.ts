import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";

import type { Use } from "receipts-client";
import { UseError } from "receipts-client";

import { canonicalUrl, entryIdOf } from "../dist/canonical-url.js";
import { membersOf } from "../dist/use.js";
import { newId } from "../dist/uuid.js";
import { USE } from "./fixtures.js";
import { vectors } from "./vectors.js";

const UUID7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

interface EntryVector {
  url: string;
  canonicalUrl: string;
  entryId: string;
}

interface PublisherVector {
  name: string;
  url: string;
  publisher: string;
  canonicalPublisher?: string;
  code?: string;
}

test("an entry's ID is the UUIDv5 of the canonical URL", async () => {
  for (const { url, canonicalUrl: canonical, entryId } of vectors<EntryVector>("entries")) {
    assert.equal(canonicalUrl(url), canonical, url);
    assert.equal(await entryIdOf(url), entryId, url);
  }
  const { content } = await membersOf({ ...USE, url: "https://News.example/2026/11/lead#a" });
  assert.equal(content.entryId, await entryIdOf("https://news.example/2026/11/lead"));
});

test("a URL without a canonical form is refused", () => {
  for (const { name, url } of vectors<{ name: string; url: string }>("refused-urls")) {
    assert.throws(() => canonicalUrl(url), UseError, name);
  }
});

test("a publisher is judged as the gateway judges", async () => {
  for (const vector of vectors<PublisherVector>("publishers")) {
    const { name, url, publisher, canonicalPublisher } = vector;
    const members = membersOf({ ...USE, url, publisher });
    if (vector.code) await assert.rejects(members, UseError, name);
    else assert.equal((await members).content.publisher, canonicalPublisher, name);
  }
});

test("the publisher of an international host is in ASCII form", async () => {
  for (const host of ["bücher.example", "BÜCHER.example.", "xn--bcher-kva.example"]) {
    const url = `https://${host}/a`;
    const { content } = await membersOf({ ...USE, url });
    assert.deepEqual([content.url, content.publisher], [url, "xn--bcher-kva.example"]);
  }
});

test("a use is filled in", async () => {
  const before = Date.now();
  const members = await membersOf({ ...USE, url: "https://News.example:8443/a?b#c" });
  assert.match(members.receiptId, UUID7);
  assert.ok(Date.parse(members.timestamp) >= before);
  assert.match(members.timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.equal(members.content.publisher, "news.example");
  assert.equal(members.content.url, "https://News.example:8443/a?b#c");
  const hash = createHash("sha256").update("hello").digest("hex");
  assert.equal(members.content.contentHash, `sha256:${hash}`);
  assert.deepEqual(members.usage, { purpose: "inference", context: "an answer" });
});

test("what the caller chooses is taken", async () => {
  const chosen = {
    publisher: "News.Example.",
    entryId: "69F09FFD-D89E-5092-B485-1DA5D197CCE5",
    receiptId: "0192f0c1-d2e3-7a4b-8c5d-6e7f80910001",
    timestamp: new Date("2026-11-24T10:30:01.125+01:00"),
    datasetId: "d",
    modelId: "",
  };
  const members = await membersOf({ ...USE, ...chosen });
  assert.equal(members.content.publisher, "news.example");
  assert.equal(members.content.entryId, chosen.entryId.toLowerCase());
  assert.equal(members.receiptId, chosen.receiptId);
  assert.equal(members.timestamp, "2026-11-24T09:30:01.125Z");
  assert.equal(members.usage.datasetId, "d");
  assert.equal(members.usage.modelId, "");
});

test("a member that a use doesn't have is refused by its name", async () => {
  const misspelt = { ...USE, model_id: "m" };
  await assert.rejects(membersOf(misspelt), /no member "model_id": .*modelId/);
  // @ts-expect-error: neither `content` nor `contentHash`.
  const without: Use = { url: USE.url, purpose: "training", context: "a" };
  await assert.rejects(membersOf(without), UseError);
});

test("a host that can't be a publisher is an error about the URL", async () => {
  const url = "https://my_blog.example/a";
  await assert.rejects(membersOf({ ...USE, url }), /^UseError: url is on "my_blog.example": /);
  const given = await membersOf({
    ...USE,
    url: "https://my_blog.news.example/",
    publisher: "news.example",
  });
  assert.equal(given.content.publisher, "news.example");
});

test("content is a text, bytes, a part of a buffer, or its hash", async () => {
  const hashes = new Set<string>();
  const bytes = new TextEncoder().encode("-hello-").subarray(1, 6);
  const { buffer } = Uint8Array.from(bytes);
  const contentHash = `sha256:${createHash("sha256").update("hello").digest("hex")}`;
  const contents: Partial<Use>[] = [
    { content: "hello" },
    { content: bytes },
    { content: Buffer.from("hello") },
    { content: buffer },
    { content: undefined, contentHash },
  ];
  for (const content of contents) {
    hashes.add((await membersOf({ ...USE, ...content } as Use)).content.contentHash);
  }
  assert.deepEqual([...hashes], [contentHash]);
});

test("a use that can't become a receipt is refused", async () => {
  const wrong: Record<string, unknown>[] = [
    { url: "ftp://news.example/" },
    { url: "nonsense" },
    { url: "https:news.example/" },
    { url: "https:///a" },
    { url: " https://news.example/" },
    { url: "https://news.example/a\nb" },
    { url: "https://user@news.example/" },
    { url: `https://news.example/${"a".repeat(2_048)}` },
    { url: undefined },
    { url: "https://news.example/\ud800" },
    { url: "https://a..news.example/" },
    { url: "https://%61.news.example/" },
    { url: "https://localhost/" },
    { url: "https://127.0.0.1/" },
    { publisher: "other.example" },
    { publisher: "ews.example" },
    { publisher: "example" },
    { publisher: "" },
    { publisher: "https://news.example" },
    { receiptId: "00000000-0000-0000-0000-000000000000" },
    { entryId: "ffffffff-ffff-ffff-ffff-ffffffffffff" },
    { purpose: "fun" },
    { purpose: undefined },
    { context: "x".repeat(4_097) },
    { context: "€".repeat(1_366) },
    { context: "\udc00" },
    { context: undefined },
    { context: "" },
    { context: " \u3000" },
    { context: 1 },
    { content: undefined },
    { content: 5 },
    { content: "\ud800" },
    { contentHash: `sha256:${"0".repeat(64)}` },
    { content: undefined, contentHash: "sha256:12" },
    { content: undefined, contentHash: 5 },
    { receiptId: "12" },
    { receiptId: "" },
    { entryId: "{69f09ffd-d89e-5092-b485-1da5d197cce5}" },
    { timestamp: new Date(Number.NaN) },
    { timestamp: "2026-11-24T09:30:01.125Z" },
    { modelId: null },
  ];
  for (const members of wrong) {
    const use = { ...USE, ...members } as Use;
    await assert.rejects(membersOf(use), UseError, JSON.stringify(members).slice(0, 100));
  }
});

test("a path may have characters that aren't ASCII", async () => {
  for (const url of ["https://news.example/é", "https://news.example?é", "http://news.example#é"]) {
    assert.equal((await membersOf({ ...USE, url })).content.url, url);
  }
});

test("a text may have as many bytes as the service takes", async () => {
  for (const context of ["x".repeat(4_096), "€".repeat(1_365), "😀".repeat(1_024)]) {
    assert.equal((await membersOf({ ...USE, context })).usage.context, context);
  }
});

test("IDs are UUIDs of version 7 that begin with the time, and differ", () => {
  const ids = Array.from({ length: 1_000 }, newId);
  assert.equal(new Set(ids).size, ids.length);
  for (const id of ids) {
    assert.match(id, UUID7);
    const time = Number.parseInt(id.replace("-", "").slice(0, 12), 16);
    assert.ok(Math.abs(time - Date.now()) < 60_000);
  }
});
