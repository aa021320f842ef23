// Receipts and batches in files, until they are acknowledged.
//
// Each client has a slot of its own in the directory, with a lock. It contains a `.journal` for
// each list of receipts that is no batch yet, and a `.batch` for each sealed batch; their names
// begin with the time. A new client takes what is in slots without a lock. `rejected` keeps what the
// service refused, and `damaged` what can't be read, for people.

import { randomBytes } from "node:crypto";
import { mkdir, open, readdir, readFile, rename, rm, rmdir, stat } from "node:fs/promises";
import type { Server } from "node:net";
import { basename, join } from "node:path";

import { SpoolError } from "../errors.js";
import type { Logger } from "../logger.js";
import { errorCode, syncDirectory } from "./directory.js";
import { frame, framesOf } from "./frame.js";
import { LeftJournal, OpenJournal } from "./journal.js";
import { isLocked, lock } from "./lock.js";
import type { Journal, Leftovers, Spool } from "./spool.js";

const PRIVATE = { recursive: true, mode: 0o700 } as const;
const SLOT = /^slot-[0-9a-f]{12}$/;
// A slot is made under another name, so that no other process sees it without its lock.
const NEW_SLOT = /^new-[0-9a-f]{12}$/;
const NEW_SLOT_AGE_MS = 3_600_000;

/** Open a spool. Throws `SpoolError`. */
export async function openSpool(
  directory: string,
  { syncIntervalMs, logger }: { syncIntervalMs: number; logger: Logger },
): Promise<Spool> {
  try {
    await mkdir(directory, PRIVATE);
    const id = randomBytes(6).toString("hex");
    const fresh = join(directory, `new-${id}`);
    const path = join(directory, `slot-${id}`);
    await mkdir(fresh, PRIVATE);
    const server = await lock(fresh);
    await rename(fresh, path);
    return new Slot(directory, path, server, syncIntervalMs, logger);
  } catch (error) {
    if (error instanceof SpoolError) throw error;
    throw new SpoolError(`the spool ${directory} can't be opened: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

class Slot implements Spool {
  readonly #directory: string;
  readonly #path: string;
  readonly #lock: Server;
  readonly #syncIntervalMs: number;
  readonly #logger: Logger;
  #journals = 0;

  constructor(
    directory: string,
    path: string,
    lock: Server,
    syncIntervalMs: number,
    logger: Logger,
  ) {
    this.#directory = directory;
    this.#path = path;
    this.#lock = lock;
    this.#syncIntervalMs = syncIntervalMs;
    this.#logger = logger;
  }

  newJournal(): Journal {
    const name = `${Date.now()}-${basename(this.#path)}-${this.#journals++}.journal`;
    return new OpenJournal(this.#path, name, this.#syncIntervalMs, this.#logger);
  }

  async store(batchId: string, body: Uint8Array): Promise<string> {
    const path = join(this.#path, `${Date.now()}-${batchId}.batch`);
    const part = `${path}.part`;
    const file = await open(part, "w", 0o600);
    try {
      await file.writeFile(frame(body));
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(part, path);
    await syncDirectory(this.#path);
    return path;
  }

  async read(path: string): Promise<Uint8Array | undefined> {
    const { frames, isWhole } = framesOf(await readFile(path));
    if (isWhole && frames.length === 1) return frames[0];
    await this.#putAway(path, "damaged");
    return undefined;
  }

  ageMs(path: string): number {
    return Date.now() - Number.parseInt(basename(path), 10);
  }

  async delete(path: string): Promise<void> {
    await rm(path, { force: true });
  }

  async reject(path: string): Promise<void> {
    await this.#putAway(path, "rejected");
  }

  async adopt(): Promise<Leftovers> {
    for (const name of await readdir(this.#directory)) {
      const path = join(this.#directory, name);
      if (NEW_SLOT.test(name)) await removeAbandoned(path);
      if (SLOT.test(name) && path !== this.#path && !(await isLocked(path))) await this.#take(path);
    }
    const names = (await readdir(this.#path)).sort();
    const paths = (kind: string) =>
      names.filter((name) => name.endsWith(kind)).map((name) => join(this.#path, name));
    const journals = [];
    for (const path of paths(".journal")) {
      const { frames, isWhole } = framesOf(await readFile(path));
      // A frame that was cut off is one whose `append` had not returned.
      if (!isWhole)
        this.#logger.warn(`the spool file ${path} is cut off behind ${frames.length} receipts`);
      journals.push({ journal: new LeftJournal(path), receipts: frames });
    }
    return { journals, batches: paths(".batch") };
  }

  async close(): Promise<void> {
    await new Promise<void>((resolve) => this.#lock.close(() => resolve()));
    // Another client may have taken the slot meanwhile.
    const left = await readdir(this.#path).catch(() => []);
    if (left.some((name) => name !== "lock")) return;
    await rm(join(this.#path, "lock"), { force: true });
    await rmdir(this.#path).catch(() => {});
  }

  /** Move the files of an ended client here. Of several takers, one succeeds. */
  async #take(path: string): Promise<void> {
    const taken = join(this.#path, basename(path));
    try {
      await rename(path, taken);
    } catch (error) {
      if (errorCode(error) === "ENOENT") return;
      throw error;
    }
    await this.#unpack(taken);
  }

  async #unpack(folder: string): Promise<void> {
    for (const entry of await readdir(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name);
      // A client that ended while it unpacked left a slot within its slot.
      if (entry.isDirectory()) await this.#unpack(path);
      else if (/\.(journal|batch)$/.test(entry.name))
        await rename(path, join(this.#path, entry.name));
    }
    await rm(folder, { recursive: true, force: true });
  }

  async #putAway(path: string, folder: string): Promise<void> {
    const target = join(this.#directory, folder);
    await mkdir(target, PRIVATE);
    await rename(path, join(target, basename(path)));
    this.#logger.error(`moved the batch ${path} to ${target}`);
  }
}

async function removeAbandoned(path: string): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (found && Date.now() - found.mtimeMs > NEW_SLOT_AGE_MS) {
    await rm(path, { recursive: true, force: true });
  }
}
