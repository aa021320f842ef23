import type { Logger } from "../logger.js";

/** Settings of a spool. */
export interface SpoolSettings {
  readonly syncIntervalMs: number;
  /** Bounds `rejected` and `damaged` each. */
  readonly spoolRetainedBytesMax: number;
  readonly logger: Logger;
  /** Gets the name of a file that can't be read, why, and the runs of bytes that are lost. */
  readonly onDamaged: (name: string, reason: string, runs: readonly Uint8Array[]) => void;
}

/** Receipts in a file that aren't in a batch yet. */
export interface Journal {
  readonly path: string;
  /**
   * Write a receipt. It survives the end of the process, and within `syncIntervalMs` that of the
   * machine. Throws an error if it doesn't; nothing can be appended then.
   */
  append(receipt: Uint8Array): void;
  /** Close the file, and flush what was written if it is needed. */
  close(options?: { isNeeded: boolean }): Promise<void>;
}

/** A list of receipts, or a sealed batch, of a client that ended. */
export interface Leftover {
  readonly stem: string;
  readonly path: string;
  /** The batch, if the file is one. */
  readonly body?: Uint8Array;
  readonly receipts?: Uint8Array[];
}

/**
 * Receipts and batches in files, until they are acknowledged. A stem is the name of a batch's files
 * without their suffix. Methods that write make the directory again if somebody removed it, and
 * throw the file system's error.
 */
export interface Spool {
  newJournal(stem: string): Journal;
  /** Store a batch durably; return its path. */
  store(stem: string, body: Uint8Array): Promise<string>;
  /** Return the body of a batch, or `undefined` if the file is damaged or was removed. */
  read(path: string): Promise<Uint8Array | undefined>;
  /** Return whether a file exists. */
  has(path: string): boolean;
  /** Delete a file whose receipts are acknowledged, or in another file. */
  delete(path: string): Promise<void>;
  /** Keep a batch that the service refused, for people. */
  reject(path: string): Promise<void>;
  /** Take what ended clients left, oldest first. */
  adopt(): Promise<Leftover[]>;
  close(): Promise<void>;
}
