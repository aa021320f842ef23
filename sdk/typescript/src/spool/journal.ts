import { closeSync, fdatasync, fstatSync, ftruncateSync, openSync, writeSync } from "node:fs";
import { promisify } from "node:util";

import type { Logger } from "../logger.js";
import { syncDirectory } from "./directory.js";
import { frame } from "./frame.js";
import type { Journal } from "./spool.js";

const sync = promisify(fdatasync);

/** A journal that this process writes. */
export class OpenJournal implements Journal {
  readonly path: string;
  readonly #directory: string;
  readonly #syncIntervalMs: number;
  readonly #logger: Logger;
  #descriptor: number | undefined;
  #timer: NodeJS.Timeout | undefined;
  #syncing: Promise<void> = Promise.resolve();
  #bytes = 0;
  #isNew = true;
  #isBroken = false;

  constructor(directory: string, name: string, syncIntervalMs: number, logger: Logger) {
    this.path = `${directory}/${name}`;
    this.#directory = directory;
    this.#syncIntervalMs = syncIntervalMs;
    this.#logger = logger;
    this.#descriptor = openSync(this.path, "ax", 0o600);
  }

  append(receipt: Uint8Array): void {
    const descriptor = this.#descriptor;
    if (descriptor === undefined || this.#isBroken) {
      throw new Error(`the journal ${this.path} is closed`);
    }
    const bytes = frame(receipt);
    try {
      if (!fstatSync(descriptor).nlink) throw new Error(`${this.path} was removed by someone else`);
      for (let written = 0; written < bytes.length; ) {
        written += writeSync(descriptor, bytes, written);
      }
    } catch (error) {
      this.#isBroken = true;
      ftruncateSync(descriptor, this.#bytes);
      throw error;
    }
    this.#bytes += bytes.length;
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#syncing = this.#syncing.then(() => this.#sync());
    }, this.#syncIntervalMs).unref();
  }

  async close({ isNeeded = true } = {}): Promise<void> {
    const descriptor = this.#descriptor;
    if (descriptor === undefined) return this.#syncing;
    this.#descriptor = undefined;
    const isDirty = isNeeded && this.#timer !== undefined;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#syncing = this.#syncing.then(async () => {
      if (isDirty) await this.#flush(descriptor);
      closeSync(descriptor);
    });
    return this.#syncing;
  }

  async #sync(): Promise<void> {
    if (this.#descriptor !== undefined) await this.#flush(this.#descriptor);
  }

  async #flush(descriptor: number): Promise<void> {
    try {
      await sync(descriptor);
      if (this.#isNew) await syncDirectory(this.#directory);
      this.#isNew = false;
    } catch (error) {
      // What the disk has isn't known: the batch is written to another file, from memory.
      this.#isBroken = true;
      this.#logger.error(
        `the spool file ${this.path} can't be synced: ${(error as Error).message}`,
      );
    }
  }
}
