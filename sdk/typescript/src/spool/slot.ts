// Receipts and batches in files, until they are acknowledged.
//
// Each client has a slot of its own in the directory, with a lock. It contains a `.journal` for
// each list of receipts that is no batch yet, and a `.batch` for each sealed batch; they are named
// by their stem. Clients take what is in slots without a lock. `rejected` keeps what the service
// refused, and `damaged` what can't be read, for people.

import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync } from "node:fs";
import {
  copyFile,
  mkdir,
  open,
  readdir,
  readFile,
  rename,
  rm,
  rmdir,
  stat,
} from "node:fs/promises";
import type { Server } from "node:net";
import { basename, join } from "node:path";

import { SpoolError } from "../errors.js";
import type { Logger } from "../logger.js";
import { errorCode, syncDirectory } from "./directory.js";
import { frame, framesOf } from "./frame.js";
import { OpenJournal } from "./journal.js";
import { isLocked, lock } from "./lock.js";
import type { Journal, Leftover, Spool, SpoolSettings } from "./spool.js";

const PRIVATE = { recursive: true, mode: 0o700 } as const;
const SLOT = /^slot-[0-9a-f]{12}$/;
// A slot is made under another name, so that no other process sees it without its lock.
const NEW_SLOT = /^new-[0-9a-f]{12}$/;
const NEW_SLOT_AGE_MS = 3_600_000;

const STEM = /^(\d{13,15}-[-0-9a-f]{36})\.(?:journal|batch)$/;

const DAMAGED = "is damaged, and retained in the folder damaged of the spool";
const EMPTY = new Uint8Array();

interface Damage {
  readonly reason: string;
  readonly runs: readonly Uint8Array[];
}

/** Open a spool. Throws `SpoolError`. */
export async function openSpool(directory: string, settings: SpoolSettings): Promise<Spool> {
  try {
    await mkdir(directory, PRIVATE);
    const id = randomBytes(6).toString("hex");
    const fresh = join(directory, `new-${id}`);
    const path = join(directory, `slot-${id}`);
    await mkdir(fresh, PRIVATE);
    const server = await lock(fresh);
    await rename(fresh, path);
    return new Slot(directory, path, server, settings);
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
  #lock: Promise<Server>;
  readonly #settings: SpoolSettings;
  readonly #logger: Logger;

  constructor(directory: string, path: string, lock: Server, settings: SpoolSettings) {
    this.#directory = directory;
    this.#path = path;
    this.#lock = Promise.resolve(lock);
    this.#settings = settings;
    this.#logger = settings.logger;
  }

  newJournal(stem: string): Journal {
    this.#restore();
    return new OpenJournal(
      this.#path,
      `${stem}.journal`,
      this.#settings.syncIntervalMs,
      this.#logger,
    );
  }

  async store(stem: string, body: Uint8Array): Promise<string> {
    this.#restore();
    const path = join(this.#path, `${stem}.batch`);
    const part = `${path}.part`;
    try {
      const file = await open(part, "w", 0o600);
      try {
        await file.writeFile(frame(body));
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(part, path);
    } catch (error) {
      // On a full disk, the rest of it would be in the way of others.
      await rm(part, { force: true }).catch(() => {});
      throw error;
    }
    await syncDirectory(this.#path);
    return path;
  }

  async read(path: string): Promise<Uint8Array | undefined> {
    const { body, damaged } = await this.#read(path);
    if (damaged) this.#settings.onDamaged(basename(path), damaged.reason, damaged.runs);
    return body;
  }

  has(path: string): boolean {
    return existsSync(path);
  }

  async delete(path: string): Promise<void> {
    await rm(path, { force: true }).catch((error: Error) => {
      // A later client sends it again; its receipts count once.
      this.#logger.error(`${path}, whose receipts ended, can't be deleted: ${error.message}`);
    });
  }

  async reject(path: string): Promise<void> {
    await this.#keep(path, "rejected", rename);
  }

  async adopt(): Promise<Leftover[]> {
    this.#restore();
    const stems = new Set<string>();
    for (const name of await readdir(this.#directory)) {
      const path = join(this.#directory, name);
      if (NEW_SLOT.test(name)) await removeAbandoned(path);
      if (SLOT.test(name) && path !== this.#path && !(await isLocked(path))) {
        await this.#take(path, stems);
      }
    }
    const left: Leftover[] = [];
    for (const stem of [...stems].sort()) left.push(...(await this.#left(stem)));
    return left;
  }

  async close(): Promise<void> {
    await ended(await this.#lock);
    // Another client may have taken the slot meanwhile.
    const left = await readdir(this.#path).catch(() => []);
    if (left.some((name) => name !== "lock")) return;
    await rm(join(this.#path, "lock"), { force: true }).catch(() => {});
    await rmdir(this.#path).catch(() => {});
  }

  /** Make the slot again if somebody removed it. Throws the file system's error. */
  #restore(): void {
    if (existsSync(this.#path)) return;
    mkdirSync(this.#path, PRIVATE);
    this.#logger.error(`${this.#path} was removed by someone else, and made again`);
    this.#lock = this.#lock.then(async (removed) => {
      // Before the new one: the end of a server removes its socket, by its path.
      await ended(removed);
      return lock(this.#path).catch((error: Error) => {
        // Another client may take the files, and send them as well; they count once.
        this.#logger.error(`${this.#path} can't be locked: ${error.message}`);
        return removed;
      });
    });
  }

  /** Return the body of a batch, or what is lost of it. */
  async #read(path: string): Promise<{ body?: Uint8Array; damaged?: Damage }> {
    const bytes = await readFile(path).catch((error: unknown) => {
      if (errorCode(error) !== "ENOENT") throw error;
    });
    if (!bytes) return { damaged: { reason: "was removed by someone else", runs: [EMPTY] } };
    const { frames, damaged } = framesOf(bytes);
    const [body, ...others] = frames;
    if (body && !others.length && !damaged.length) return { body };
    await this.#keep(path, "damaged", rename);
    return { damaged: { reason: DAMAGED, runs: [bytes] } };
  }

  async #left(stem: string): Promise<Leftover[]> {
    const batch = join(this.#path, `${stem}.batch`);
    const path = join(this.#path, `${stem}.journal`);
    const { body, damaged } = existsSync(batch) ? await this.#read(batch) : {};
    if (body) {
      // The process ended between storing the batch and deleting its journal.
      await rm(path, { force: true });
      return [{ stem, path: batch, body }];
    }
    if (existsSync(path)) {
      const journal = framesOf(await readFile(path));
      if (journal.damaged.length) {
        await this.#keep(path, "damaged", copyFile);
        this.#settings.onDamaged(basename(path), DAMAGED, journal.damaged);
      }
      return [{ stem, path, receipts: journal.frames }];
    }
    if (damaged) this.#settings.onDamaged(basename(batch), damaged.reason, damaged.runs);
    return [];
  }

  /** Move the files of an ended client here. Of several takers, one succeeds. */
  async #take(path: string, stems: Set<string>): Promise<void> {
    const taken = join(this.#path, basename(path));
    try {
      await rename(path, taken);
    } catch (error) {
      if (errorCode(error) === "ENOENT") return;
      throw error;
    }
    await this.#unpack(taken, stems);
  }

  async #unpack(folder: string, stems: Set<string>): Promise<void> {
    for (const entry of await readdir(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name);
      // A client that ended while it unpacked left a slot within its slot.
      const stem = STEM.exec(entry.name)?.[1];
      if (entry.isDirectory()) await this.#unpack(path, stems);
      else if (stem) {
        await rename(path, join(this.#path, entry.name));
        stems.add(stem);
      }
    }
    await rm(folder, { recursive: true, force: true });
  }

  /** Move or copy a file to a folder for people. */
  async #keep(path: string, folder: string, bring: typeof rename): Promise<void> {
    const target = join(this.#directory, folder);
    try {
      await mkdir(target, PRIVATE);
      await bring(path, join(target, basename(path)));
      this.#logger.error(`${basename(path)} is retained in ${target}`);
      await this.#bound(target);
    } catch (error) {
      this.#logger.error(`${path} can't be retained in ${target}: ${(error as Error).message}`);
    }
  }

  /** Delete the oldest files beyond the bound. Their receipts have been reported. */
  async #bound(folder: string): Promise<void> {
    let left = this.#settings.spoolRetainedBytesMax;
    for (const name of (await readdir(folder)).sort().reverse()) {
      const path = join(folder, name);
      left -= (await stat(path)).size;
      if (left >= 0) continue;
      await rm(path, { force: true });
      this.#logger.error(`deleted ${path}: the files beside it have spoolRetainedBytesMax`);
    }
  }
}

async function removeAbandoned(path: string): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (found && Date.now() - found.mtimeMs > NEW_SLOT_AGE_MS) {
    await rm(path, { recursive: true, force: true });
  }
}

async function ended(server: Server): Promise<void> {
  await new Promise<void>((resolve) => server.close(() => resolve()));
}
