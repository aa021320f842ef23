import { signedBatch, withKey } from "./batch.js";
import type { Logger } from "./logger.js";
import type { Limits } from "./options.js";
import type { Signer } from "./signers.js";
import type { Spool } from "./spool/spool.js";
import { batchIdOf, timeMsOf } from "./stem.js";

/** A file of the spool, which is deleted when no list and no batch needs it. */
export class SpoolFile {
  readonly path: string;
  readonly #spool: Spool;
  #uses = 1;

  constructor(spool: Spool, path: string) {
    this.#spool = spool;
    this.path = path;
  }

  share(): this {
    this.#uses++;
    return this;
  }

  async release(): Promise<void> {
    if (!--this.#uses) await this.#spool.delete(this.path);
  }
}

/** A batch that isn't acknowledged. */
export interface SealedBatch {
  /** Number of the list of receipts that it was sealed from. */
  readonly sequence: number;
  /** Name of its file, without the suffix. */
  readonly stem: string;
  readonly count: number;
  readonly bytes: number;
  /** The batch, unless an ended process sealed it: then it is read from its file. */
  readonly body: Uint8Array | undefined;
  /** What has its receipts in the spool. */
  readonly file: SpoolFile | undefined;
  /** Whether the file has the batch. Otherwise it is the journal or batch that it was made of. */
  readonly isStored: boolean;
  attempts: number;
  notBefore: number;
}

/** Seals batches, and has them in the spool if there is one. */
export class BatchStore {
  readonly #signer: Signer;
  readonly #limits: Limits;
  readonly #logger: Logger;
  /** Set when it is open. */
  spool: Spool | undefined;

  constructor(signer: Signer, limits: Limits, logger: Logger) {
    this.#signer = signer;
    this.#limits = limits;
    this.#logger = logger;
  }

  /**
   * Sign and store a batch of receipts that `source` has. If the spool can't be written, the batch
   * is in memory, and `source` is retained until it ends.
   */
  async seal(
    receipts: readonly Uint8Array[],
    { sequence, file: source }: { sequence: number; file: SpoolFile | undefined },
    stem: string,
  ): Promise<SealedBatch> {
    const signed: Uint8Array[] = [];
    for (const receipt of receipts) signed.push(await this.#withKey(receipt));
    const body = await signedBatch(batchIdOf(stem), signed, this.#signer);
    const file = await this.#stored(stem, body);
    return {
      sequence,
      stem,
      count: receipts.length,
      bytes: body.length,
      body,
      file: file ?? source?.share(),
      isStored: file !== undefined,
      attempts: 0,
      notBefore: 0,
    };
  }

  /** Return the body of a batch, or `undefined` if its file is damaged or was removed. */
  async read({ body, file }: SealedBatch): Promise<Uint8Array | undefined> {
    return body ?? (file && this.spool?.read(file.path));
  }

  /** Return whether a batch waited in the spool for longer than `spoolHoursMax`, at a time. */
  isExpired({ stem }: SealedBatch, atMs: number): boolean {
    const ageMs = this.spool ? atMs - timeMsOf(stem) : 0;
    return ageMs > this.#limits.spoolHoursMax * 3_600_000;
  }

  /** Return whether the spool has the receipts of a batch, which is stored again if it hasn't. */
  async isRetained({ stem, body, file }: SealedBatch): Promise<boolean> {
    if (file && this.spool?.has(file.path)) return true;
    return body !== undefined && (await this.#stored(stem, body)) !== undefined;
  }

  /** Keep a batch that was refused as a whole, for people. */
  async reject({ file, isStored }: SealedBatch): Promise<void> {
    if (file && isStored) await this.spool?.reject(file.path);
  }

  async #stored(stem: string, body: Uint8Array): Promise<SpoolFile | undefined> {
    if (!this.spool) return undefined;
    try {
      return new SpoolFile(this.spool, await this.spool.store(stem, body));
    } catch (error) {
      const reason = (error as Error).message;
      this.#logger.error(`a batch can't be stored in the spool, and is only in memory: ${reason}`);
      return undefined;
    }
  }

  /** Sign a receipt of an ended process again if its key was another. */
  async #withKey(receipt: Uint8Array): Promise<Uint8Array> {
    return this.spool ? withKey(receipt, this.#signer) : receipt;
  }
}
