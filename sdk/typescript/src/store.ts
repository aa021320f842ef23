import { signedBatch } from "./batch.js";
import type { Limits } from "./options.js";
import type { Signer } from "./signers.js";
import type { Spool } from "./spool/spool.js";

/** A batch that isn't acknowledged. Its body is in memory or in a file. */
export interface SealedBatch {
  /** Number of the list of receipts that it was sealed from. */
  readonly sequence: number;
  readonly count: number;
  readonly bytes: number;
  readonly body?: Uint8Array;
  readonly path?: string;
  attempts: number;
  notBefore: number;
}

/** Seals batches, and has them in the spool if there is one. */
export class BatchStore {
  readonly #signer: Signer;
  readonly #limits: Limits;
  /** Set when it is open. */
  spool: Spool | undefined;

  constructor(signer: Signer, limits: Limits) {
    this.#signer = signer;
    this.#limits = limits;
  }

  /** Sign and store a batch. */
  async seal(receipts: readonly Uint8Array[], sequence: number): Promise<SealedBatch> {
    const { batchId, body } = await signedBatch(receipts, this.#signer);
    const batch = {
      sequence,
      count: receipts.length,
      bytes: body.length,
      attempts: 0,
      notBefore: 0,
    };
    return this.spool
      ? { ...batch, path: await this.spool.store(batchId, body) }
      : { ...batch, body };
  }

  /** Return the body of a batch, or `undefined` if its file is damaged. */
  async read({ path, body }: SealedBatch): Promise<Uint8Array | undefined> {
    return path === undefined ? body : this.spool?.read(path);
  }

  /** Return whether a batch waited in the spool for longer than `spoolHoursMax`. */
  isExpired({ path }: SealedBatch): boolean {
    const ageMs = path === undefined ? 0 : (this.spool?.ageMs(path) ?? 0);
    return ageMs > this.#limits.spoolHoursMax * 3_600_000;
  }

  /** Delete a batch that has its final answer. */
  async delete({ path }: SealedBatch): Promise<void> {
    if (path !== undefined) await this.spool?.delete(path);
  }

  /** Keep a batch that was refused as a whole, for people. */
  async reject({ path }: SealedBatch): Promise<void> {
    if (path !== undefined) await this.spool?.reject(path);
  }
}
