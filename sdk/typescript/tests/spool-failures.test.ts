// Clients whose spool is removed, can't be written, is damaged, or has what others left.

import assert from "node:assert/strict";
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import type { ClientOptions, Rejection } from "receipts-client";
import { Client, SpoolError } from "receipts-client";
import { FakeGateway } from "receipts-client/testing";

import { optionsFor, problem, USE } from "./fixtures.js";

// As package.json chooses it for this run: without files there is no spool.
const hasFiles = !process.execArgv.some((argument) => argument.includes("workerd"));

interface World {
  readonly gateway: FakeGateway;
  readonly spoolDir: string;
  readonly rejected: Rejection[];
  readonly counts: Record<string, number>;
  readonly logged: string[];
  client(more?: Partial<ClientOptions>): Client;
}

function inWorld(name: string, run: (world: World) => Promise<void>): void {
  test(name, { skip: !hasFiles }, async () => {
    const folder = mkdtempSync(join(tmpdir(), "receipts-client-"));
    const gateway = new FakeGateway();
    const rejected: Rejection[] = [];
    const counts: Record<string, number> = {};
    const logged: string[] = [];
    const clients: Client[] = [];
    const spoolDir = join(folder, "spool");
    const client = (more: Partial<ClientOptions> = {}) => {
      const made = new Client({
        ...optionsFor(gateway),
        spoolDir,
        onRejected: (rejection) => void rejected.push(rejection),
        onMetric: (metric, value) => {
          counts[metric] = (counts[metric] ?? 0) + value;
        },
        logger: { warn() {}, error: (message) => void logged.push(message) },
        ...more,
      });
      clients.push(made);
      return made;
    };
    try {
      await run({ gateway, spoolDir, rejected, counts, logged, client });
    } finally {
      for (const made of clients) await made.close({ timeoutMs: 0 });
      rmSync(folder, { recursive: true, force: true });
    }
  });
}

function files(folder: string): string[] {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name));
}

/** Leave a copy of a spool's files, as a process that is killed does. */
function leave(from: string, to: string): string[] {
  const slot = join(to, "slot-000000000000");
  mkdirSync(slot, { recursive: true });
  return files(from).map((path) => {
    copyFileSync(path, join(slot, basename(path)));
    return join(slot, basename(path));
  });
}

const idsOf = (gateway: FakeGateway) => gateway.receipts.map(({ receiptId }) => receiptId);

inWorld(
  "what is in memory is sent after the spool is removed, which is made again",
  async (world) => {
    const { gateway, spoolDir } = world;
    gateway.status = 503;
    const client = world.client({ batchReceiptsMax: 2, batchDelayMs: 60_000 });
    const ids = [];
    for (let count = 0; count < 5; count++) ids.push(await client.record(USE));
    while (client.state().spooledBatches + client.state().inFlight / 2 < 2) await sleep(1);
    rmSync(spoolDir, { recursive: true, force: true });
    // The open journal has no file any more: what `record` returned is in a new one.
    ids.push(await client.record(USE));
    assert.equal(files(spoolDir).length, 1);
    gateway.status = 202;
    assert.ok(await client.flush());
    assert.deepEqual(idsOf(gateway).sort(), ids.sort());
    assert.deepEqual(files(spoolDir), []);
    assert.ok(
      world.logged.some((line) => /was removed by someone else, and made again/.test(line)),
    );
    // The new directory has its lock, so that no other client takes it.
    gateway.status = 503;
    await client.record(USE);
    const other = world.client();
    await other.ready();
    assert.equal(other.state().queued, 0);
    gateway.status = 202;
    assert.ok(await client.close());
  },
);

inWorld("a spool that can't be written blocks nothing that is in memory", async (world) => {
  const { gateway, spoolDir } = world;
  const client = world.client({ batchReceiptsMax: 100, batchDelayMs: 60_000 });
  const ids = [];
  for (let count = 0; count < 3; count++) ids.push(await client.record(USE));
  rmSync(spoolDir, { recursive: true, force: true });
  // Stops the superuser too.
  writeFileSync(spoolDir, "in the way");
  await assert.rejects(client.record(USE), SpoolError);
  assert.ok(await client.flush());
  assert.deepEqual(idsOf(gateway).sort(), ids.sort());
  assert.ok(world.logged.some((line) => /only in memory/.test(line)));
  rmSync(spoolDir);
  ids.push(await client.record(USE));
  assert.ok(await client.close());
  assert.deepEqual(idsOf(gateway).sort(), ids.sort());
});

inWorld("a batch that isn't stored keeps its journal until it is acknowledged", async (world) => {
  const { gateway, spoolDir } = world;
  gateway.status = 503;
  const client = world.client({ batchDelayMs: 60_000 });
  const id = await client.record(USE);
  // The name of the batch's file is taken by a directory.
  const [journal] = files(spoolDir) as [string];
  mkdirSync(join(journal.replace(/journal$/, "batch"), "taken"), { recursive: true });
  assert.equal(await client.flush({ timeoutMs: 100 }), false);
  assert.deepEqual(files(spoolDir), [journal]);
  gateway.status = 202;
  assert.ok(await client.flush());
  assert.deepEqual(idsOf(gateway), [id]);
  assert.deepEqual(files(spoolDir), []);
});

inWorld("close stores again what a removed spool had, or reports it", async (world) => {
  const { gateway, spoolDir } = world;
  gateway.status = 503;
  const first = world.client();
  const id = await first.record(USE);
  assert.equal(await first.flush({ timeoutMs: 50 }), false);
  rmSync(spoolDir, { recursive: true, force: true });
  assert.equal(await first.close({ timeoutMs: 0 }), false);
  assert.deepEqual(world.rejected, []);
  const second = world.client();
  await second.ready();
  assert.equal(second.state().queued + second.state().inFlight, 1);
  const other = await second.record(USE);
  await second.flush({ timeoutMs: 50 });
  rmSync(spoolDir, { recursive: true, force: true });
  writeFileSync(spoolDir, "in the way");
  assert.equal(await second.close({ timeoutMs: 0 }), false);
  const codes = world.rejected.map(({ receiptId, code }) => [receiptId, code]);
  // The other batch was an ended client's: its receipts were in the removed file only.
  assert.ok(codes.some(([receiptId, code]) => receiptId === other && code === "undelivered"));
  assert.ok(!codes.some(([receiptId]) => receiptId === id));
});

inWorld(
  "a damaged receipt is reported, counted and retained, and the others are sent",
  async (world) => {
    const { gateway, spoolDir, rejected } = world;
    const first = world.client({ batchDelayMs: 60_000 });
    const ids = [];
    for (let count = 0; count < 5; count++) ids.push(await first.record(USE));
    const [journal] = leave(spoolDir, join(spoolDir, "..", "other")) as [string];
    const changed = readFileSync(journal);
    const position = changed.indexOf("timestamp", changed.indexOf(ids[2] as string)) + 1;
    changed[position] = (changed[position] as number) ^ 1;
    writeFileSync(journal, changed);
    const other = join(spoolDir, "..", "other");
    const second = world.client({ spoolDir: other });
    assert.ok(await second.flush());
    assert.deepEqual(idsOf(gateway), ids.toSpliced(2, 1));
    assert.deepEqual(
      rejected.map(({ receiptId, code }) => [receiptId, code]),
      [[ids[2], "damaged"]],
    );
    assert.equal(world.counts["damaged"], 1);
    const [retained, ...more] = files(join(other, "damaged"));
    assert.deepEqual([readFileSync(retained as string), more.length], [changed, 0]);
    assert.ok(world.logged.some((line) => line.includes(basename(journal))));
  },
);

inWorld("a client that lives for long takes what others leave meanwhile", async (world) => {
  const { gateway, spoolDir } = world;
  const other = join(spoolDir, "..", "other");
  const client = world.client({ spoolDir: other, adoptIntervalMs: 20 });
  await client.ready();
  const first = world.client({ batchDelayMs: 60_000 });
  const id = await first.record(USE);
  leave(spoolDir, join(spoolDir, "..", "left"));
  renameSync(join(spoolDir, "..", "left", "slot-000000000000"), join(other, "slot-000000000000"));
  while (!gateway.receipts.length) await sleep(1);
  assert.deepEqual(idsOf(gateway), [id]);
});

inWorld("rejected batches are sent again by the README's command", async (world) => {
  const { gateway, spoolDir, rejected } = world;
  const client = world.client({ adoptIntervalMs: 20 });
  gateway.answers.push(problem(403, "client_key_unknown"));
  const id = await client.record(USE);
  while (!rejected.length) await sleep(1);
  assert.ok(await client.flush());
  const readme = readFileSync("README.md", "utf8");
  const [, from, to] = /^mv (spool\/rejected) (spool\/\S+)$/m.exec(readme) as unknown as string[];
  const inSpool = (path: string) => join(dirname(spoolDir), path);
  renameSync(inSpool(from as string), inSpool(to as string));
  while (!gateway.receipts.length) await sleep(1);
  assert.deepEqual(idsOf(gateway), [id]);
});

inWorld("a batch that waited for too long is reported, and retained for people", async (world) => {
  const { gateway, spoolDir, rejected } = world;
  gateway.status = 503;
  const client = world.client({ spoolHoursMax: 1e-9 });
  await client.record(USE);
  assert.ok(await client.flush());
  assert.deepEqual(
    rejected.map(({ code }) => code),
    ["expired"],
  );
  assert.equal(files(join(spoolDir, "rejected")).length, 1);
});

inWorld("a clock that is ahead expires nothing", async (world) => {
  const { gateway, rejected } = world;
  const client = world.client({ spoolHoursMax: 1e-9 });
  // Sent before it is too old.
  await client.record(USE);
  assert.ok(await client.flush());
  // By the clock of whoever answers.
  const date = new Date(Date.now() - 73 * 3_600_000).toUTCString();
  gateway.answers.push(problem(503, "overloaded", [], { date }));
  await client.record(USE);
  assert.ok(await client.flush());
  assert.deepEqual([gateway.receipts.length, rejected.length], [2, 0]);
});
