import { SpoolError } from "./errors.js";
import type { Limits } from "./options.js";
import type { Progress } from "./progress.js";
import type { Journal } from "./spool/spool.js";
import { newStem } from "./stem.js";
import type { BatchStore } from "./store.js";
import { SpoolFile } from "./store.js";

/** Receipts that aren't a batch yet. */
export interface ReceiptList {
  readonly sequence: number;
  readonly stem: string;
  /** Open in this process. */
  readonly journal: Journal | undefined;
  /** What has its receipts in the spool. */
  readonly file: SpoolFile | undefined;
  readonly since: number;
  readonly receipts: Uint8Array[];
  bytes: number;
  notBefore: number;
}

/** The list that gets receipts, and the full ones that are to be sealed. */
export class ReceiptLists {
  readonly #limits: Limits;
  readonly #store: BatchStore;
  readonly #progress: Progress;
  #open: ReceiptList | undefined;
  readonly full: ReceiptList[] = [];

  constructor(limits: Limits, store: BatchStore, progress: Progress) {
    this.#limits = limits;
    this.#store = store;
    this.#progress = progress;
  }

  /** Time at which the open list is full, however few receipts it has. */
  get dueAt(): number {
    return this.#open ? this.#open.since + this.#limits.batchDelayMs : Infinity;
  }

  get all(): ReceiptList[] {
    return this.#open ? [this.#open, ...this.full] : this.full;
  }

  /**
   * Add a receipt, and write it to the journal; return whether a list began or is full. Throws
   * `SpoolError` if it can't be written; what the open list has is full then.
   */
  append(receipt: Uint8Array): boolean {
    const { batchBytesMax, batchReceiptsMax } = this.#limits;
    if (this.#open && this.#open.bytes + receipt.length > batchBytesMax) this.fill();
    let list: ReceiptList;
    try {
      list = this.#journaled(receipt);
    } catch {
      // The open journal was removed, for example; a new one may work.
      list = this.#journaled(receipt);
    }
    list.receipts.push(receipt);
    list.bytes += receipt.length + 1;
    const isFull = list.receipts.length >= batchReceiptsMax;
    if (isFull) this.fill();
    return isFull || list.receipts.length === 1;
  }

  /** Add a list of an ended client; return the bytes of its receipts. */
  adopt(stem: string, file: SpoolFile, receipts: Uint8Array[]): number {
    const bytes = receipts.reduce((sum, receipt) => sum + receipt.length, 0);
    const list = { stem, journal: undefined, file, since: 0, receipts };
    this.full.push({ ...list, ...this.#newTask(), bytes: bytes + receipts.length });
    return bytes;
  }

  /** End the open list, so that it becomes a batch. */
  fill(): void {
    if (this.#open) this.full.push(this.#open);
    this.#open = undefined;
  }

  #journaled(receipt: Uint8Array): ReceiptList {
    try {
      this.#open ??= this.#newList();
      this.#open.journal?.append(receipt);
      return this.#open;
    } catch (error) {
      this.fill();
      const message = `the receipt can't be written to the spool: ${(error as Error).message}`;
      throw new SpoolError(message, { cause: error });
    }
  }

  #newList(): ReceiptList {
    const stem = newStem();
    const { spool } = this.#store;
    const journal = spool?.newJournal(stem);
    return {
      ...this.#newTask(),
      stem,
      journal,
      file: spool && journal && new SpoolFile(spool, journal.path),
      since: performance.now(),
      receipts: [],
      bytes: 0,
    };
  }

  #newTask(): { sequence: number; notBefore: number } {
    return { sequence: this.#progress.begin(), notBefore: 0 };
  }
}
