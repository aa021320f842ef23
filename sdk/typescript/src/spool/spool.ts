import type { Logger } from "../logger.js";

/** Settings of a spool. */
export interface SpoolSettings {
  readonly syncIntervalMs: number;
  /** Bounds `rejected` and `damaged` each. */
  readonly spoolKeptBytesMax: number;
  readonly logger: Logger;
}

/** Receipts in a file that aren't in a batch yet. */
export interface Journal {
  /**
   * Write a receipt. It survives the end of the process, and within `syncIntervalMs` that of the
   * machine. Throws the file system's error; nothing can be appended then.
   */
  append(receipt: Uint8Array): void;
  /** Flush what was written, and close the file. */
  close(): Promise<void>;
  /** Delete the journal, whose receipts are stored in a batch. */
  delete(): Promise<void>;
}

/** A list of receipts, or a sealed batch, of a client that ended. */
export interface Leftover {
  readonly stem: string;
  /** Path of a batch. */
  readonly path?: string;
  readonly body?: Uint8Array;
  readonly journal?: Journal;
  readonly receipts?: Uint8Array[];
}

/**
 * Receipts and batches in files, until they are acknowledged. A stem is the name of a batch's files
 * without their suffix.
 */
export interface Spool {
  newJournal(stem: string): Journal;
  /** Store a batch durably; return its path. */
  store(stem: string, body: Uint8Array): Promise<string>;
  /** Return the body of a batch, or `undefined` if the file is damaged, which moves it away. */
  read(path: string): Promise<Uint8Array | undefined>;
  /** Delete an acknowledged batch. */
  delete(path: string): Promise<void>;
  /** Keep a batch that the service refused, for people. */
  reject(path: string): Promise<void>;
  /** Return what ended clients left, oldest first. */
  adopt(): Promise<Leftover[]>;
  close(): Promise<void>;
}
