import { closeSync, fdatasync, openSync, writeSync } from "node:fs";
import { rm } from "node:fs/promises";
import { promisify } from "node:util";

import type { Logger } from "../logger.js";
import { syncDirectory } from "./directory.js";
import { frame } from "./frame.js";
import type { Journal } from "./spool.js";

const sync = promisify(fdatasync);

/** A journal that this process writes. */
export class OpenJournal implements Journal {
  readonly #path: string;
  readonly #directory: string;
  readonly #syncIntervalMs: number;
  readonly #logger: Logger;
  #descriptor: number | undefined;
  #timer: NodeJS.Timeout | undefined;
  #syncing: Promise<void> = Promise.resolve();
  #isNew = true;

  constructor(directory: string, name: string, syncIntervalMs: number, logger: Logger) {
    this.#path = `${directory}/${name}`;
    this.#directory = directory;
    this.#syncIntervalMs = syncIntervalMs;
    this.#logger = logger;
    this.#descriptor = openSync(this.#path, "ax", 0o600);
  }

  append(receipt: Uint8Array): void {
    if (this.#descriptor === undefined) throw new Error(`the journal ${this.#path} is closed`);
    const bytes = frame(receipt);
    try {
      for (let written = 0; written < bytes.length; ) {
        written += writeSync(this.#descriptor, bytes, written);
      }
    } catch (error) {
      // Readers stop at a frame that was cut off, so nothing may follow it.
      void this.close();
      throw error;
    }
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#syncing = this.#syncing.then(() => this.#sync());
    }, this.#syncIntervalMs).unref();
  }

  async close(): Promise<void> {
    const descriptor = this.#descriptor;
    if (descriptor === undefined) return this.#syncing;
    this.#descriptor = undefined;
    const isDirty = this.#timer !== undefined;
    clearTimeout(this.#timer);
    this.#syncing = this.#syncing.then(async () => {
      if (isDirty) await this.#flush(descriptor);
      closeSync(descriptor);
    });
    return this.#syncing;
  }

  async delete(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    await this.close();
    await rm(this.#path, { force: true });
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
      this.#logger.error(
        `the spool file ${this.#path} can't be synced: ${(error as Error).message}`,
      );
    }
  }
}

/** A journal that an ended process left. */
export class LeftJournal implements Journal {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  append(): void {
    throw new Error("the journal is of an ended process");
  }

  async close(): Promise<void> {}

  async delete(): Promise<void> {
    await rm(this.#path, { force: true });
  }
}
