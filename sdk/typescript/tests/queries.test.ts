import assert from "node:assert/strict";
import { createPublicKey, verify } from "node:crypto";
import { test } from "node:test";

import type { Outcome } from "receipts-client";
import { Client, DEFAULT_LIMITS, PemSigner, RequestError } from "receipts-client";
import { FakeGateway } from "receipts-client/testing";

import { clientOf, optionsFor, USE } from "./fixtures.js";
import { KEY_NAMES, keyPem } from "./vectors.js";

type Init = { method: string; headers: Record<string, string>; body?: Uint8Array };

test("outcomes are read page by page, with signed requests", async () => {
  for (const name of KEY_NAMES) {
    const pages = [
      '{"outcome":"rejected","receiptId":"a","cursor":"1"}\n{"cursor":"2/+","more":true}\n',
      '{"outcome":"duplicate","receiptId":"b","cursor":"3"}\n{"cursor":"3","more":false}\n',
    ];
    const urls: string[] = [];
    const fetch = async (url: string, { method, headers }: Init) => {
      urls.push(url);
      const input = headers["Signature-Input"]?.replace("sig1=", "");
      const base = `"@method": ${method}\n"@target-uri": ${url}\n"@signature-params": ${input}`;
      assert.match(String(input), /^\("@method" "@target-uri"\);created=\d{10};expires=\d{10}$/);
      const key = createPublicKey({
        key: Buffer.from(headers["X-Client-Public-Key"] as string, "base64"),
        format: "der",
        type: "spki",
      });
      const signature = Buffer.from(
        /^sig1=:(.*):$/.exec(headers["Signature"] as string)?.[1] ?? "",
        "base64",
      );
      const isRaw = name === "ecdsa-p256" && signature.length === 64;
      const hash = name === "ed25519" ? null : "sha256";
      const how = isRaw ? { key, dsaEncoding: "ieee-p1363" as const } : key;
      assert.ok(verify(hash, Buffer.from(base), how, signature), name);
      return new Response(pages.shift());
    };
    const client = new Client({
      ...optionsFor(new FakeGateway()),
      fetch: fetch as never,
      analyticsUrl: "https://analytics.invalid/",
      signer: await PemSigner.fromPem(keyPem(name)),
    });
    const found: Outcome[] = [];
    for await (const outcome of client.outcomes({ after: "0" })) found.push(outcome);
    assert.deepEqual(
      found.map(({ outcome, receiptId }) => [outcome, receiptId]),
      [
        ["rejected", "a"],
        ["duplicate", "b"],
      ],
    );
    assert.deepEqual(urls, [
      "https://analytics.invalid/api/v1/client/outcomes?limit=1000&after=0",
      "https://analytics.invalid/api/v1/client/outcomes?limit=1000&after=2%2F%2B",
    ]);
    await client.close();
  }
});

test("explain sends the receipt as it is, and returns the answer", async () => {
  const { client, gateway } = clientOf();
  gateway.answers.push(Response.json({ verdict: "accepted" }), Response.json({}));
  assert.deepEqual(await client.explain('{"a": 1}'), { verdict: "accepted" });
  assert.deepEqual(await client.explain(Buffer.from("{}")), {});
  await client.close();
});

test("a query that fails is an error with its status", async () => {
  const { client, gateway } = clientOf();
  const statusIs = (status: number) => (error: unknown) =>
    error instanceof RequestError && error.status === status;
  gateway.answers.push(
    new Response("no", { status: 401 }),
    new Response(""),
    new Response("<html>"),
  );
  const read = async () => {
    for await (const _ of client.outcomes());
  };
  await assert.rejects(read(), statusIs(401));
  await assert.rejects(read(), statusIs(200));
  await assert.rejects(read(), statusIs(200));
  const fetch = async () => {
    throw new TypeError("fetch failed");
  };
  const away = new Client(optionsFor(gateway, { fetch: fetch as never }));
  await assert.rejects(away.explain("{}"), statusIs(0));
  await client.close();
  await away.close();
});

test("an answer without an end is given up", async () => {
  const { client, gateway } = clientOf();
  const endless = new ReadableStream({
    pull(controller) {
      controller.enqueue(new Uint8Array(1 << 20));
    },
  });
  gateway.answers.push(new Response(endless));
  await assert.rejects(client.explain("{}"), /more than 16777216 bytes/);
  await client.close();
});

test("URLs are resolved in parts, once in five minutes", async () => {
  const sizes: number[] = [];
  const urlsOf = (count: number) =>
    Array.from({ length: count }, (_, index) => `https://www.news.example/${index}`);
  const entryOf = (url: string) =>
    url.endsWith("/7") ? null : { url, entryId: "e", publisher: "news.example", listed: false };
  const fetch = async (url: string, { body, method }: Init) => {
    assert.equal(`${method} ${url}`, "POST https://publishers.invalid/api/v1/entries/lookup");
    const { urls } = JSON.parse(Buffer.from(body as Uint8Array).toString()) as { urls: string[] };
    sizes.push(urls.length);
    return Response.json({ entries: urls.map(entryOf), errors: [] });
  };
  const client = new Client({
    ...optionsFor(new FakeGateway()),
    fetch: fetch as never,
    publisherUrl: "https://publishers.invalid/",
  });
  const found = await client.resolve(urlsOf(1_500));
  assert.equal(found.size, 1_500);
  assert.equal(found.get("https://www.news.example/3")?.publisher, "news.example");
  assert.equal(found.get("https://www.news.example/7"), null);
  assert.equal((await client.resolve([...urlsOf(3), ...urlsOf(1_501)])).size, 1_501);
  assert.deepEqual(sizes, [1_000, 500, 1]);
  await client.close();
});

test("the resolved publisher is the receipt's", async () => {
  const { client, gateway } = clientOf();
  gateway.publishers["www.news.example"] = "news.example";
  const url = "https://www.news.example/1";
  const entry = (await client.resolve([url])).get(url);
  await client.submit({ ...USE, url, publisher: entry?.publisher ?? undefined });
  assert.equal(gateway.receipts[0]?.content.publisher, "news.example");
  assert.equal(gateway.receipts[0]?.content.entryId, entry?.entryId);
  gateway.answers.push(Response.json({ entries: [] }));
  await assert.rejects(client.resolve(["https://other.example/"]), RequestError);
  await client.close();
});

test("either bound of the queue can be reached", () => {
  const { queueReceiptsMax, queueBytesMax } = DEFAULT_LIMITS;
  // conformance/README.md, "Metrics": receipts have 750 to 1,500 bytes.
  assert.ok(queueReceiptsMax * 750 < queueBytesMax && queueBytesMax < queueReceiptsMax * 1_500);
});
