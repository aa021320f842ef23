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

/** What ended processes left, oldest first. */
export interface Leftovers {
  readonly journals: readonly { readonly journal: Journal; readonly receipts: Uint8Array[] }[];
  /** Paths of batches. */
  readonly batches: readonly string[];
}

/** Receipts and batches in files, until they are acknowledged. */
export interface Spool {
  newJournal(): Journal;
  /** Store a batch durably; return its path. */
  store(batchId: string, body: Uint8Array): Promise<string>;
  /** Return the body of a batch, or `undefined` if the file is damaged, which moves it away. */
  read(path: string): Promise<Uint8Array | undefined>;
  /** Return the age of a batch. */
  ageMs(path: string): number;
  /** Delete an acknowledged batch. */
  delete(path: string): Promise<void>;
  /** Keep a batch that the service refused, for people. */
  reject(path: string): Promise<void>;
  /** Return what ended processes left, and what an earlier one of this slot did. */
  adopt(): Promise<Leftovers>;
  close(): Promise<void>;
}
