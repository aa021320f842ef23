import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { gunzipSync } from "node:zlib";

import type { ClientOptions, Rejection } from "receipts-client";
import {
  CallbackSigner,
  Client,
  ClosedError,
  KeyError,
  OptionsError,
  PemSigner,
  QueueFullError,
  RejectedError,
  UseError,
  Webhook,
} from "receipts-client";
import { FakeGateway } from "receipts-client/testing";

import { clientOf, optionsFor, problem, signer, USE } from "./fixtures.js";
import { keyPem } from "./vectors.js";

const never = () => new Promise<Response>(() => {});

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await sleep(1);
}

test("recorded uses arrive signed, once, without a flush", async () => {
  const { client, gateway } = clientOf();
  const ids = await Promise.all(Array.from({ length: 30 }, () => client.record(USE)));
  await until(() => gateway.receipts.length === 30);
  assert.deepEqual(gateway.receipts.map(({ receiptId }) => receiptId).sort(), ids.sort());
  for (const receipt of gateway.receipts) await new Webhook().verify(JSON.stringify(receipt));
  assert.ok(await client.close());
});

test("record makes no request, and an idle client makes none", async () => {
  const { client, gateway } = clientOf({ batchDelayMs: 60_000 });
  await client.record(USE);
  assert.equal(client.state().queued, 1);
  assert.equal(gateway.receipts.length, 0);
  assert.ok(await client.flush());
  assert.deepEqual(client.state(), {
    queued: 0,
    inFlight: 0,
    acknowledged: 1,
    batchesAcknowledged: 1,
    retries: 0,
    spooledBatches: 0,
  });
  assert.ok(await client.close());
});

test("flush waits for calls of record that are in progress", async () => {
  const { client, gateway } = clientOf({
    batchDelayMs: 60_000,
    signer: new CallbackSigner({
      publicKey: signer.publicKey,
      sign: async (message) => {
        await sleep(5);
        return signer.sign(message);
      },
    }),
  });
  void client.record(USE);
  void client.record(USE);
  assert.ok(await client.flush());
  assert.equal(gateway.receipts.length, 2);
  await client.close();
});

test("a client that is disposed of delivers", async () => {
  const gateway = new FakeGateway();
  {
    await using client = new Client(optionsFor(gateway, { batchDelayMs: 60_000 }));
    await client.record(USE);
  }
  assert.equal(gateway.receipts.length, 1);
});

test("batches have at most the configured receipts and bytes", async () => {
  const sizes: number[] = [];
  const gateway = new FakeGateway();
  const fetch = ((url: string, init: { body: Uint8Array }) => {
    if (url.endsWith("/batch")) sizes.push(gunzipSync(init.body).length);
    return gateway.fetch(url, init as never);
  }) as unknown as NonNullable<ClientOptions["fetch"]>;
  const options = { fetch, batchDelayMs: 60_000 };
  const client = new Client(optionsFor(gateway, { ...options, batchReceiptsMax: 10 }));
  await Promise.all(Array.from({ length: 35 }, () => client.record(USE)));
  await client.close();
  assert.equal(sizes.length, 4);
  sizes.length = 0;
  const small = new Client(optionsFor(gateway, { ...options, batchBytesMax: 20_000 }));
  for (let count = 0; count < 60; count++) {
    await small.record({ ...USE, context: "x".repeat(1_000) });
  }
  await small.close();
  assert.ok(sizes.length > 3 && Math.max(...sizes) < 20_500, String(sizes));
  assert.equal(gateway.receipts.length, 95);
});

test("a failed batch is sent again with the same bytes", async () => {
  const bodies = new Set<string>();
  const gateway = new FakeGateway();
  const failures = [
    () => problem(408, "timeout"),
    () => problem(429, "overloaded"),
    () => problem(500, "internal"),
    () => new Response("<html>", { status: 502 }),
    () => problem(503, "overloaded"),
    () => new Response("<html>ok</html>"),
    () => new Response("{", { status: 202 }),
    () => Response.json({}, { status: 202 }),
    () => Response.json({ batchId: "another" }, { status: 202 }),
    () => Response.json({ batchId: "a" }, { status: 201 }),
    () => new Response(null, { status: 204 }),
    () => new Response(null, { status: 307, headers: { location: "https://a.invalid" } }),
    () => {
      throw new TypeError("fetch failed", { cause: new Error("ECONNRESET") });
    },
  ];
  const tries = failures.length + 1;
  const fetch = async (url: string, init: { body: Uint8Array }) => {
    if (url.endsWith("/batch")) bodies.add(Buffer.from(init.body).toString("hex"));
    return failures.shift()?.() ?? gateway.fetch(url, init as never);
  };
  const client = new Client(optionsFor(gateway, { fetch: fetch as never }));
  await client.submit({ ...USE, context: "x".repeat(2_000) });
  assert.equal(bodies.size, 1);
  assert.equal(client.state().retries, tries - 1);
  await client.close();
});

test("an answer that doesn't come is given up", async () => {
  const gateway = new FakeGateway();
  let hangs = 1;
  const fetch = async (url: string, init: { signal: AbortSignal }) => {
    if (hangs-- !== 1) return gateway.fetch(url, init as never);
    return new Promise((_, reject) => {
      init.signal.addEventListener("abort", () => reject(init.signal.reason));
    });
  };
  const client = new Client(optionsFor(gateway, { fetch: fetch as never, requestTimeoutMs: 1_000 }));
  await client.submit(USE);
  assert.equal(client.state().retries, 1);
  await client.close();
});

test("no request begins before Retry-After", async () => {
  const { client, gateway } = clientOf({ batchReceiptsMax: 1, requestsInFlightMax: 1 });
  gateway.answers.push(problem(429, "overloaded", [], { "retry-after": "1" }));
  await client.record(USE);
  await until(() => client.state().retries === 1);
  await client.record(USE);
  const begunAt = performance.now();
  assert.ok(await client.flush());
  // The timer's own resolution is a millisecond.
  assert.ok(performance.now() - begunAt > 950);
  await client.close();
});

test("receipts that the service names are reported, and the others are sent again", async () => {
  const rejected: Rejection[] = [];
  const { client, gateway } = clientOf({
    batchDelayMs: 60_000,
    onRejected: (rejection) => void rejected.push(rejection),
  });
  gateway.answers.push(
    problem(400, "invalid_batch", [
      { code: "invalid_url", pointer: "/receipts/2/content/url", detail: "wrong" },
      { code: "second_fault", pointer: "/receipts/2/timestamp" },
      { code: "whole_receipt", pointer: "/receipts/5" },
      { code: "elsewhere", pointer: "/receipts/99/content/url" },
      { code: "no_receipt", pointer: "/batchId" },
      "nonsense",
      null,
    ]),
  );
  const ids: string[] = [];
  for (let count = 0; count < 10; count++) ids.push(await client.record(USE));
  assert.ok(await client.flush());
  assert.deepEqual(
    rejected.map(({ receiptId, code, pointer, detail }) => [receiptId, code, pointer, detail]),
    [
      [ids[2], "invalid_url", "/content/url", "wrong"],
      [ids[5], "whole_receipt", "", ""],
    ],
  );
  await new Webhook().verify(rejected[0]?.receipt as Uint8Array);
  assert.deepEqual(
    gateway.receipts.map(({ receiptId }) => receiptId),
    ids.filter((_, index) => index !== 2 && index !== 5),
  );
  assert.equal(client.state().queued, 0);
  await client.close();
});

test("a batch of faulty receipts only is reported, and nothing is sent", async () => {
  const rejected: Rejection[] = [];
  const { client, gateway } = clientOf({
    onRejected: (rejection) => void rejected.push(rejection),
  });
  gateway.answers.push(problem(400, "invalid_batch", [{ code: "a", pointer: "/receipts/0" }]));
  await assert.rejects(client.submit(USE), (error: unknown) => {
    return error instanceof RejectedError && error.rejection.code === "a";
  });
  assert.ok(await client.flush());
  assert.equal(rejected.length, 1);
  assert.equal(gateway.receipts.length, 0);
  await client.close();
});

test("a batch that is refused as a whole is reported", async () => {
  const rejected: Rejection[] = [];
  const { client, gateway } = clientOf({
    onRejected: (rejection) => void rejected.push(rejection),
  });
  for (const code of ["bad_batch_signature", "client_key_revoked"]) {
    gateway.answers.push(problem(401, code));
    await assert.rejects(client.submit(USE), RejectedError);
    assert.equal(rejected.at(-1)?.code, code);
  }
  await client.submit(USE);
  assert.equal(gateway.receipts.length, 1);
  await client.close();
});

test("a batch that is too large is sent in halves", async () => {
  const { client, gateway } = clientOf({ batchDelayMs: 60_000 });
  gateway.answers.push(problem(413, "body_too_large"));
  gateway.answers.push(problem(413, "body_too_large"));
  await Promise.all(Array.from({ length: 7 }, () => client.record(USE)));
  assert.ok(await client.flush());
  assert.equal(gateway.receipts.length, 7);
  gateway.answers.push(problem(413, "body_too_large"));
  const refused = assert.rejects(client.submit(USE), RejectedError);
  await client.flush();
  await refused;
  assert.equal(client.state().queued, 0);
  await client.close();
});

test("a full queue is an error, and nothing is dropped", async () => {
  const { client, gateway } = clientOf({
    queueReceiptsMax: 5,
    queueWaitMs: 10,
    batchDelayMs: 60_000,
  });
  const results = await Promise.allSettled(Array.from({ length: 8 }, () => client.record(USE)));
  const refused = results.filter(({ status }) => status === "rejected") as PromiseRejectedResult[];
  assert.equal(refused.length, 3);
  for (const { reason } of refused) assert.ok(reason instanceof QueueFullError);
  assert.ok(await client.flush());
  assert.equal(gateway.receipts.length, 5);
  await client.close();
});

test("record waits for room in the queue", async () => {
  const { client, gateway } = clientOf({ queueReceiptsMax: 2, queueWaitMs: 60_000 });
  for (let count = 0; count < 20; count++) await client.record(USE);
  assert.ok(await client.flush());
  assert.equal(gateway.receipts.length, 20);
  await client.close();
});

test("a queue full of bytes is an error", async () => {
  const { client } = clientOf({ queueBytesMax: 3_000, queueWaitMs: 0, batchDelayMs: 60_000 });
  await client.record({ ...USE, context: "x".repeat(1_000) });
  await assert.rejects(client.record({ ...USE, context: "x".repeat(3_000) }), QueueFullError);
  await client.record(USE);
  await client.close();
});

test("requests at one time are bounded", async () => {
  let inFlight = 0;
  let most = 0;
  const gateway = new FakeGateway();
  const fetch = async (url: string, init: object) => {
    most = Math.max(most, ++inFlight);
    await until(() => most >= 3);
    // Time for a fourth.
    await sleep(5);
    inFlight--;
    return gateway.fetch(url, init);
  };
  const options = { fetch: fetch as never, batchReceiptsMax: 2, requestsInFlightMax: 3 };
  const client = new Client(optionsFor(gateway, options));
  await Promise.all(Array.from({ length: 40 }, () => client.record(USE)));
  assert.ok(await client.flush());
  assert.equal(most, 3);
  await client.close();
});

test("a client that is closed refuses uses, and those that wait", async () => {
  const { client } = clientOf({ fetch: never as never, queueReceiptsMax: 1, queueWaitMs: 60_000 });
  const submitted = assert.rejects(client.submit(USE), ClosedError);
  await until(() => client.state().queued + client.state().inFlight === 1);
  const waiting = assert.rejects(client.record(USE), ClosedError);
  const isClosed = client.close({ timeoutMs: 10 });
  await assert.rejects(client.record(USE), ClosedError);
  await Promise.all([submitted, waiting]);
  assert.equal(await isClosed, false);
  assert.equal(await client.close(), false);
});

test("close tries once more, however long the back-off is", async () => {
  const { client, gateway } = clientOf({ retryDelayMsMin: 60_000, retryDelayMsMax: 60_000 });
  gateway.answers.push(problem(503, "overloaded"));
  await client.record(USE);
  await until(() => client.state().retries === 1);
  assert.equal(await client.flush({ timeoutMs: 5 }), false);
  assert.ok(await client.close());
  assert.equal(gateway.receipts.length, 1);
});

test("waitUntil gets a promise that ends with the delivery", async () => {
  const promises: Promise<unknown>[] = [];
  const { client, gateway } = clientOf({
    waitUntil: (promise) => void promises.push(promise),
    batchDelayMs: 60_000,
    batchReceiptsMax: 2,
  });
  await client.record(USE);
  await client.record(USE);
  assert.equal(promises.length, 1);
  await promises[0];
  assert.equal(gateway.receipts.length, 2);
  await client.record(USE);
  assert.equal(promises.length, 2);
  void client.flush();
  await promises[1];
  assert.equal(gateway.receipts.length, 3);
  await client.close();
});

test("metrics count receipts and retries", async () => {
  const counts: Record<string, number> = {};
  const onMetric = (name: string, value: number) => {
    counts[name] = (counts[name] ?? 0) + value;
    throw new Error("of the caller");
  };
  const { client, gateway } = clientOf({ onMetric, batchDelayMs: 60_000 });
  gateway.answers.push(problem(503, "overloaded"));
  gateway.answers.push(problem(400, "invalid_batch", [{ code: "a", pointer: "/receipts/1" }]));
  await Promise.all([client.record(USE), client.record(USE), client.record(USE)]);
  await client.close();
  const { request_s: seconds, ...numbers } = counts;
  assert.ok(seconds !== undefined && seconds > 0);
  assert.deepEqual(numbers, { recorded: 3, retries: 1, rejected: 1, acknowledged: 2 });
});

test("a signer that fails is an error of record, and a batch's is tried again", async () => {
  let failures = 0;
  const failing = new CallbackSigner({
    publicKey: signer.publicKey,
    sign: (message) => {
      if (failures-- > 0) throw new Error("the KMS is away");
      return signer.sign(message);
    },
  });
  const { client, gateway } = clientOf({ signer: failing, batchDelayMs: 60_000 });
  for (const duringTheCheck of [true, false]) {
    failures = 1;
    await assert.rejects(client.record(USE), /the KMS is away/, String(duringTheCheck));
    await client.record(USE);
  }
  failures = 1;
  assert.ok(await client.flush());
  assert.equal(gateway.receipts.length, 2);
  await client.close();
});

test("a signer whose signature isn't its public key's is refused", async () => {
  const { publicKey } = await PemSigner.fromPem(keyPem("other-ed25519"));
  const wrong = new CallbackSigner({ publicKey, sign: (message) => signer.sign(message) });
  const { client } = clientOf({ signer: wrong });
  await assert.rejects(client.record(USE), KeyError);
  await client.close();
});

test("what a client without a spool didn't deliver is reported when it is closed", async () => {
  const rejected: Rejection[] = [];
  const { client, gateway } = clientOf({
    onRejected: (rejection) => void rejected.push(rejection),
    batchReceiptsMax: 2,
  });
  for (let count = 0; count < 50; count++) gateway.answers.push(problem(503, "overloaded"));
  const ids = await Promise.all([client.record(USE), client.record(USE), client.record(USE)]);
  assert.equal(await client.close({ timeoutMs: 1 }), false);
  assert.deepEqual(rejected.map(({ receiptId }) => receiptId).sort(), ids.sort());
  assert.deepEqual([...new Set(rejected.map(({ code }) => code))], ["undelivered"]);
});

test("a record that nobody awaits and that fails is logged, counted and reported", async () => {
  const unhandled: unknown[] = [];
  const note = (error: unknown) => void unhandled.push(error);
  process.on("unhandledRejection", note);
  const logged: string[] = [];
  const counts: Record<string, number> = {};
  const failed: [unknown, unknown][] = [];
  const { client } = clientOf({
    queueReceiptsMax: 2,
    queueWaitMs: 0,
    batchDelayMs: 60_000,
    logger: { warn() {}, error: (message) => void logged.push(message) },
    onMetric: (name, value) => {
      counts[name] = (counts[name] ?? 0) + value;
    },
    onFailed: (error, use) => {
      failed.push([error, use]);
      throw new Error("of the caller");
    },
  });
  const wrong = { ...USE, url: "https://news.example/a b" };
  void client.record(wrong);
  await until(() => failed.length === 1);
  for (let count = 0; count < 10; count++) void client.record(USE);
  await until(() => failed.length === 9);
  assert.ok(await client.close());
  void client.record(USE);
  await until(() => failed.length === 10);
  assert.deepEqual(counts["failed"], 10);
  assert.equal(counts["recorded"], 2);
  assert.ok(failed[0]?.[0] instanceof UseError && failed[0][1] === wrong);
  assert.ok(failed[1]?.[0] instanceof QueueFullError);
  assert.ok(failed[9]?.[0] instanceof ClosedError);
  // The first at once, and those of a second together.
  const lines = logged.filter((line) => line.includes("recorded: "));
  assert.match(lines[0] ?? "", /^a use wasn't recorded: UseError: url is /);
  assert.match(lines[1] ?? "", /^8 uses weren't recorded: QueueFullError: /);
  await sleep(5);
  process.off("unhandledRejection", note);
  assert.deepEqual(unhandled, []);
});

test("refused receipts are one line in the log, and their reports don't wait for each other", async () => {
  const logged: string[] = [];
  let atOneTime = 0;
  let most = 0;
  const { client, gateway } = clientOf({
    batchDelayMs: 60_000,
    logger: { warn() {}, error: (message) => void logged.push(message) },
    onRejected: async () => {
      most = Math.max(most, ++atOneTime);
      await sleep(5);
      atOneTime--;
    },
  });
  gateway.answers.push(problem(401, "bad_batch_signature"));
  await Promise.all(Array.from({ length: 20 }, () => client.record(USE)));
  assert.ok(await client.flush());
  assert.equal(most, 20);
  assert.equal(logged.length, 1);
  assert.match(logged[0] ?? "", /and 19 others .*bad_batch_signature/);
  await client.close();
});

test("name, version and organization may be left out", async () => {
  const { client, gateway } = clientOf({
    name: undefined,
    version: undefined,
    organization: undefined,
  });
  await client.submit(USE);
  const { name, version, organization } = gateway.receipts[0]?.client ?? {};
  assert.deepEqual([name, version, organization], ["unnamed", "unknown", "unnamed"]);
  await client.close();
});

test("a wrong use isn't recorded", async () => {
  const { client } = clientOf();
  await assert.rejects(client.record({ ...USE, url: "nonsense" }), UseError);
  assert.equal(client.state().queued, 0);
  await client.close();
});

test("options that can't be are refused", () => {
  const wrong: Record<string, unknown>[] = [
    { url: "ftp://gateway.example" },
    { url: "gateway.example" },
    { url: undefined },
    { clientId: "12" },
    { name: 5 },
    { version: "x".repeat(5_000) },
    { organization: "\ud800" },
    { signer: undefined },
    { batchReceiptsMax: 0 },
    { batchReceiptsMax: 10_001 },
    { batchBytesMax: 1e9 },
    { queueWaitMs: -1 },
    { batchDelayMs: Number.NaN },
    { requestsInFlightMax: "2" },
    { spooldir: "spool" },
    { onReject: () => {} },
    { batchReceiptMax: 5 },
  ];
  for (const options of wrong) {
    const whole = { ...optionsFor(new FakeGateway()), ...options } as ClientOptions;
    assert.throws(() => new Client(whole), OptionsError, JSON.stringify(options).slice(0, 100));
  }
});
