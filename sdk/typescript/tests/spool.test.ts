import assert from "node:assert/strict";
import { fork, spawn } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { SpoolError } from "receipts-client";

import { frame, framesOf } from "../dist/spool/frame.js";
import { openSpool } from "../dist/spool/slot.js";
import type { Spool } from "../dist/spool/spool.js";

const logger = { warn() {}, error() {} };
const settings = { syncIntervalMs: 1, logger };
const bytes = (text: string) => new TextEncoder().encode(text);
const texts = (parts: readonly Uint8Array[]) => parts.map((part) => Buffer.from(part).toString());

async function inFolder(run: (folder: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "receipts-client-"));
  try {
    await run(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Leave a spool's files behind, as a process that was killed does. */
async function abandon(spool: Spool, folder: string): Promise<string> {
  const [slot] = readdirSync(folder).filter((name) => name.startsWith("slot-"));
  const path = join(folder, slot as string);
  const extra = join(path, "keep");
  // Close removes an empty slot only.
  writeFileSync(extra, "");
  await spool.close();
  rmSync(extra);
  return path;
}

const slots = (folder: string) => readdirSync(folder).filter((name) => name.startsWith("slot-"));

test("frames are read up to the first that is damaged", () => {
  const whole = Buffer.concat([frame(bytes("a")), frame(bytes("")), frame(bytes("bc"))]);
  assert.deepEqual(texts(framesOf(whole).frames), ["a", "", "bc"]);
  assert.ok(framesOf(whole).isWhole);
  for (let length = 1; length < whole.length; length++) {
    const { frames, isWhole } = framesOf(whole.subarray(0, length));
    assert.equal(isWhole, length === 9 || length === 17, String(length));
    assert.deepEqual(texts(frames), ["a", "", "bc"].slice(0, length < 9 ? 0 : length < 17 ? 1 : 2));
  }
  for (let index = 0; index < whole.length; index++) {
    const changed = Buffer.from(whole);
    changed[index] = (changed[index] as number) ^ 0x40;
    assert.ok(!framesOf(changed).isWhole, String(index));
  }
});

test("a batch is stored, read, deleted, and put aside", async () => {
  await inFolder(async (folder) => {
    const spool = await openSpool(folder, settings);
    const path = await spool.store("id", bytes("body"));
    assert.deepEqual(texts([(await spool.read(path)) as Uint8Array]), ["body"]);
    assert.ok(spool.ageMs(path) < 60_000);
    await spool.delete(path);
    await spool.delete(path);
    const refused = await spool.store("refused", bytes("body"));
    await spool.reject(refused);
    assert.equal(readdirSync(join(folder, "rejected")).length, 1);
    await spool.close();
    assert.deepEqual(slots(folder), []);
  });
});

test("a damaged batch is moved away", async () => {
  await inFolder(async (folder) => {
    const spool = await openSpool(folder, settings);
    for (const damage of [(data: Buffer) => data.subarray(0, -1), () => Buffer.alloc(0)]) {
      const path = await spool.store("id", bytes("body"));
      writeFileSync(path, damage(readFileSync(path)));
      assert.equal(await spool.read(path), undefined);
      assert.ok(!existsSync(path));
    }
    const twice = await spool.store("id", bytes("body"));
    appendFileSync(twice, frame(bytes("more")));
    assert.equal(await spool.read(twice), undefined);
    assert.ok(readdirSync(join(folder, "damaged")).length >= 1);
    await spool.close();
  });
});

test("a new client takes what an ended one left, and only that", async () => {
  await inFolder(async (folder) => {
    const ended = await openSpool(folder, settings);
    const journal = ended.newJournal();
    for (const receipt of ["a", "b"]) journal.append(bytes(receipt));
    await journal.close();
    await ended.store("1", bytes("batch"));
    const left = await abandon(ended, folder);
    // A frame whose append had not returned, and a batch whose store had not.
    const [name] = readdirSync(left).filter((entry) => entry.endsWith(".journal"));
    appendFileSync(join(left, name as string), frame(bytes("c")).subarray(0, -1));
    writeFileSync(join(left, "1-2.batch.part"), "half");

    const other = await openSpool(folder, settings);
    const kept = await other.store("3", bytes("of another client"));
    const spool = await openSpool(folder, settings);
    const { journals, batches } = await spool.adopt();
    assert.deepEqual(
      journals.map(({ receipts }) => texts(receipts)),
      [["a", "b"]],
    );
    assert.equal(batches.length, 1);
    assert.deepEqual(texts([(await spool.read(batches[0] as string)) as Uint8Array]), ["batch"]);
    assert.ok(existsSync(kept));
    assert.ok(!existsSync(left));

    await journals[0]?.journal.delete();
    await spool.delete(batches[0] as string);
    await other.delete(kept);
    await Promise.all([other.close(), spool.close()]);
    assert.deepEqual(slots(folder), []);
  });
});

test("what a client left while it took another's files is taken, too", async () => {
  await inFolder(async (folder) => {
    const first = await openSpool(folder, settings);
    await first.store("1", bytes("first"));
    const left = await abandon(first, folder);
    const nested = join(left, "slot-000000000000");
    mkdirSync(nested);
    writeFileSync(join(nested, "0-nested.batch"), frame(bytes("nested")));
    const spool = await openSpool(folder, settings);
    const { batches } = await spool.adopt();
    const bodies = await Promise.all(batches.map((path) => spool.read(path)));
    assert.deepEqual(texts(bodies as Uint8Array[]), ["nested", "first"]);
    await spool.close();
  });
});

test("of several new clients, one takes what was left", async () => {
  await inFolder(async (folder) => {
    const ended = await openSpool(folder, settings);
    for (let count = 0; count < 20; count++) await ended.store(String(count), bytes("batch"));
    await abandon(ended, folder);
    const spools = await Promise.all(Array.from({ length: 5 }, () => openSpool(folder, settings)));
    const found = await Promise.all(spools.map((spool) => spool.adopt()));
    const counts = found.map(({ batches }) => batches.length).sort((a, b) => a - b);
    assert.deepEqual(counts, [0, 0, 0, 0, 20]);
    await Promise.all(spools.map((spool) => spool.close()));
  });
});

test("a slot that never got its lock is removed when it is old", async () => {
  await inFolder(async (folder) => {
    const old = join(folder, "new-000000000000");
    const young = join(folder, "new-000000000001");
    for (const path of [old, young]) mkdirSync(path);
    utimesSync(old, 0, 0);
    const spool = await openSpool(folder, settings);
    await spool.adopt();
    assert.ok(!existsSync(old) && existsSync(young));
    await spool.close();
  });
});

test("a process that is killed loses its lock", async () => {
  await inFolder(async (folder) => {
    const slot = new URL("../dist/spool/slot.js", import.meta.url).href;
    const program = `
      const { openSpool } = await import(${JSON.stringify(slot)});
      const spool = await openSpool(${JSON.stringify(folder)}, { syncIntervalMs: 1, logger: console });
      spool.newJournal().append(Buffer.from("a"));
      console.log("written");
      setInterval(() => {}, 1_000);`;
    const child = spawn(process.execPath, ["--input-type=module", "--eval", program]);
    await new Promise((resolve) => child.stdout.once("data", resolve));
    const early = await openSpool(folder, settings);
    assert.equal((await early.adopt()).journals.length, 0);
    child.kill("SIGKILL");
    await new Promise((resolve) => child.once("exit", resolve));
    const late = await openSpool(folder, settings);
    const { journals } = await late.adopt();
    assert.deepEqual(
      journals.map(({ receipts }) => texts(receipts)),
      [["a"]],
    );
    await Promise.all([early.close(), late.close()]);
  });
});

test("a worker of a cluster has a lock of its own", async () => {
  await inFolder(async (folder) => {
    const slot = new URL("../dist/spool/slot.js", import.meta.url).href;
    const program = join(folder, "cluster.mjs");
    const spoolFolder = join(folder, "spool");
    writeFileSync(
      program,
      `import cluster from "node:cluster";
      import { openSpool } from ${JSON.stringify(slot)};
      if (cluster.isPrimary) {
        cluster.fork().on("message", () => process.send("opened"));
        process.on("message", () => {
          for (const worker of Object.values(cluster.workers)) worker.process.kill("SIGKILL");
        });
        cluster.on("exit", () => process.send("killed"));
      } else {
        const spool = await openSpool(${JSON.stringify(spoolFolder)}, { syncIntervalMs: 1, logger: console });
        await spool.store("1", Buffer.from("batch"));
        process.send("opened");
      }`,
    );
    const primary = fork(program, { execArgv: [] });
    const next = () => new Promise((resolve) => primary.once("message", resolve));
    assert.equal(await next(), "opened");
    primary.send("kill");
    assert.equal(await next(), "killed");
    const spool = await openSpool(spoolFolder, settings);
    assert.equal((await spool.adopt()).batches.length, 1);
    await spool.close();
    primary.kill();
  });
});

test("a directory that can't be used is an error that says why", async () => {
  await inFolder(async (folder) => {
    const file = join(folder, "file");
    writeFileSync(file, "");
    await assert.rejects(openSpool(file, settings), SpoolError);
    const long = join(folder, "a".repeat(100));
    await assert.rejects(openSpool(long, settings), /bytes too long/);
  });
});

test("files are readable by their owner only", async () => {
  await inFolder(async (folder) => {
    const { statSync } = await import("node:fs");
    const spool = await openSpool(join(folder, "spool"), settings);
    const path = await spool.store("1", bytes("batch"));
    assert.equal(statSync(join(folder, "spool")).mode & 0o777, 0o700);
    assert.equal(statSync(path).mode & 0o777, 0o600);
    await spool.close();
  });
});

test("nothing is appended behind a frame that was cut off", async () => {
  await inFolder(async (folder) => {
    const spool = await openSpool(folder, settings);
    const journal = spool.newJournal();
    journal.append(bytes("a"));
    await journal.close();
    assert.throws(() => journal.append(bytes("b")), /closed/);
    await journal.delete();
    const [slot] = slots(folder);
    if (process.getuid?.() !== 0) {
      chmodSync(join(folder, slot as string), 0o500);
      assert.throws(() => spool.newJournal());
      chmodSync(join(folder, slot as string), 0o700);
    }
    await spool.close();
  });
});
