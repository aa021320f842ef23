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
const reports: { name: string; runs: string[] }[] = [];
const onDamaged = (name: string, _: string, runs: readonly Uint8Array[]) => {
  reports.push({ name, runs: runs.map((run) => Buffer.from(run).toString("latin1")) });
};
const settings = { syncIntervalMs: 1, spoolRetainedBytesMax: 1 << 20, logger, onDamaged };
/** A name of a batch's files. */
const stem = (time: number) =>
  `${String(time).padStart(13, "0")}-00000000-0000-7000-8000-000000000000`;
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

test("a damaged frame costs itself alone, wherever it is and whatever of it is damaged", () => {
  const data = ["a".repeat(300), "{}", "b".repeat(70), "-"];
  const parts = data.map((text) => frame(bytes(text)));
  const whole = Buffer.concat(parts);
  assert.deepEqual(texts(framesOf(whole).frames), data);
  assert.deepEqual(framesOf(whole).damaged, []);
  let start = 0;
  for (const [position, part] of parts.entries()) {
    const others = data.toSpliced(position, 1);
    for (let index = 0; index < part.length; index++) {
      const changed = Buffer.from(whole);
      changed[start + index] = (changed[start + index] as number) ^ 0x40;
      const { frames, damaged } = framesOf(changed);
      assert.deepEqual(texts(frames), others, `frame ${position}, byte ${index}`);
      assert.deepEqual(
        damaged.map(({ length }) => length),
        [part.length],
      );
    }
    start += part.length;
  }
});

test("what a cut file has is read up to the cut", () => {
  const whole = Buffer.concat([frame(bytes("a")), frame(bytes("-")), frame(bytes("bc"))]);
  for (let length = 1; length < whole.length; length++) {
    const { frames, damaged } = framesOf(whole.subarray(0, length));
    const count = length < 9 ? 0 : length < 18 ? 1 : 2;
    assert.deepEqual(texts(frames), ["a", "-", "bc"].slice(0, count));
    assert.equal(damaged.length, length === 9 || length === 18 ? 0 : 1, String(length));
  }
});

test("a batch is stored, read, deleted, and put aside", async () => {
  await inFolder(async (folder) => {
    const spool = await openSpool(folder, settings);
    const path = await spool.store(stem(1), bytes("body"));
    assert.deepEqual(texts([(await spool.read(path)) as Uint8Array]), ["body"]);
    await spool.delete(path);
    await spool.delete(path);
    const refused = await spool.store(stem(2), bytes("body"));
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
      const path = await spool.store(stem(1), bytes("body"));
      writeFileSync(path, damage(readFileSync(path)));
      assert.equal(await spool.read(path), undefined);
      assert.ok(!existsSync(path));
    }
    const twice = await spool.store(stem(1), bytes("body"));
    appendFileSync(twice, frame(bytes("more")));
    assert.equal(await spool.read(twice), undefined);
    assert.ok(readdirSync(join(folder, "damaged")).length >= 1);
    await spool.close();
  });
});

test("a new client takes what an ended one left, and only that", async () => {
  await inFolder(async (folder) => {
    const ended = await openSpool(folder, settings);
    const journal = ended.newJournal(stem(1));
    for (const receipt of ["a", "b"]) journal.append(bytes(receipt));
    await journal.close();
    await ended.store(stem(2), bytes("batch"));
    const left = await abandon(ended, folder);
    // A frame whose append had not returned, and a batch whose store had not.
    const [name] = readdirSync(left).filter((entry) => entry.endsWith(".journal"));
    appendFileSync(join(left, name as string), frame(bytes("c")).subarray(0, -1));
    writeFileSync(join(left, "2.batch.part"), "half");

    const other = await openSpool(folder, settings);
    const retained = await other.store(stem(3), bytes("of another client"));
    const spool = await openSpool(folder, settings);
    const [list, batch, ...more] = await spool.adopt();
    assert.deepEqual(texts(list?.receipts ?? []), ["a", "b"]);
    assert.equal(list?.stem, stem(1));
    assert.deepEqual(texts([batch?.body as Uint8Array]), ["batch"]);
    assert.equal(more.length, 0);
    assert.ok(existsSync(retained));
    assert.ok(!existsSync(left));

    await spool.delete(list?.path as string);
    await spool.delete(batch?.path as string);
    await other.delete(retained);
    await Promise.all([other.close(), spool.close()]);
    assert.deepEqual(slots(folder), []);
  });
});

test("what a client left while it took another's files is taken, too", async () => {
  await inFolder(async (folder) => {
    const first = await openSpool(folder, settings);
    await first.store(stem(2), bytes("first"));
    const left = await abandon(first, folder);
    const nested = join(left, "slot-000000000000");
    mkdirSync(nested);
    writeFileSync(join(nested, `${stem(1)}.batch`), frame(bytes("nested")));
    const spool = await openSpool(folder, settings);
    const bodies = (await spool.adopt()).map(({ body }) => body as Uint8Array);
    assert.deepEqual(texts(bodies), ["nested", "first"]);
    await spool.close();
  });
});

test("of several new clients, one takes what was left", async () => {
  await inFolder(async (folder) => {
    const ended = await openSpool(folder, settings);
    for (let count = 0; count < 20; count++) await ended.store(stem(count), bytes("batch"));
    await abandon(ended, folder);
    const spools = await Promise.all(Array.from({ length: 5 }, () => openSpool(folder, settings)));
    const found = await Promise.all(spools.map((spool) => spool.adopt()));
    const counts = found.map((batches) => batches.length).sort((a, b) => a - b);
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
      const spool = await openSpool(${JSON.stringify(folder)}, { syncIntervalMs: 1, spoolRetainedBytesMax: 1, logger: console, onDamaged() {} });
      spool.newJournal(${JSON.stringify(stem(1))}).append(Buffer.from("a"));
      console.log("written");
      setInterval(() => {}, 1_000);`;
    const child = spawn(process.execPath, ["--input-type=module", "--eval", program]);
    await new Promise((resolve) => child.stdout.once("data", resolve));
    const early = await openSpool(folder, settings);
    assert.equal((await early.adopt()).length, 0);
    child.kill("SIGKILL");
    await new Promise((resolve) => child.once("exit", resolve));
    const late = await openSpool(folder, settings);
    const [left] = await late.adopt();
    assert.deepEqual(texts(left?.receipts ?? []), ["a"]);
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
        const spool = await openSpool(${JSON.stringify(spoolFolder)}, { syncIntervalMs: 1, spoolRetainedBytesMax: 1, logger: console, onDamaged() {} });
        await spool.store(${JSON.stringify(stem(1))}, Buffer.from("batch"));
        process.send("opened");
      }`,
    );
    const primary = fork(program, { execArgv: [] });
    const next = () => new Promise((resolve) => primary.once("message", resolve));
    assert.equal(await next(), "opened");
    primary.send("kill");
    assert.equal(await next(), "killed");
    const spool = await openSpool(spoolFolder, settings);
    assert.equal((await spool.adopt()).length, 1);
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
    const path = await spool.store(stem(1), bytes("batch"));
    assert.equal(statSync(join(folder, "spool")).mode & 0o777, 0o700);
    assert.equal(statSync(path).mode & 0o777, 0o600);
    await spool.close();
  });
});

test("nothing is appended behind a frame that was cut off", async () => {
  await inFolder(async (folder) => {
    const spool = await openSpool(folder, settings);
    const journal = spool.newJournal(stem(1));
    journal.append(bytes("a"));
    await journal.close();
    assert.throws(() => journal.append(bytes("b")), /closed/);
    await spool.delete(journal.path);
    const [slot] = slots(folder);
    if (process.getuid?.() !== 0) {
      chmodSync(join(folder, slot as string), 0o500);
      assert.throws(() => spool.newJournal(stem(2)));
      chmodSync(join(folder, slot as string), 0o700);
    }
    await spool.close();
  });
});

test("a journal whose batch is stored is a leftover", async () => {
  await inFolder(async (folder) => {
    const ended = await openSpool(folder, settings);
    ended.newJournal(stem(1)).append(bytes("a"));
    await ended.store(stem(1), bytes("batch of a"));
    await abandon(ended, folder);
    const spool = await openSpool(folder, settings);
    const left = await spool.adopt();
    assert.equal(left.length, 1);
    assert.deepEqual(texts([left[0]?.body as Uint8Array]), ["batch of a"]);
    await spool.delete(left[0]?.path as string);
    await spool.close();
    assert.deepEqual(slots(folder), []);
  });
});

test("of a journal and its damaged batch, the journal is taken", async () => {
  await inFolder(async (folder) => {
    const ended = await openSpool(folder, settings);
    ended.newJournal(stem(1)).append(bytes("a"));
    const path = await ended.store(stem(1), bytes("batch of a"));
    writeFileSync(path, "damaged");
    await abandon(ended, folder);
    const spool = await openSpool(folder, settings);
    const [left] = await spool.adopt();
    assert.deepEqual(texts(left?.receipts ?? []), ["a"]);
    await spool.close();
  });
});

test("files that are retained for people are bounded", async () => {
  await inFolder(async (folder) => {
    const spool = await openSpool(folder, { ...settings, spoolRetainedBytesMax: 300 });
    for (let count = 1; count <= 9; count++) {
      await spool.reject(await spool.store(stem(count), bytes("x".repeat(92))));
    }
    const names = readdirSync(join(folder, "rejected")).sort();
    assert.deepEqual(
      names,
      [7, 8, 9].map((count) => `${stem(count)}.batch`),
    );
    await spool.close();
  });
});

test("a file of zeros has no frame", () => {
  const { frames, damaged } = framesOf(Buffer.alloc(64));
  assert.deepEqual([frames.length, damaged.length], [0, 1]);
});
