/** Unfinished batches, by the number of the list of receipts that they were sealed from. */
export class Progress {
  readonly #unfinished = new Map<number, number>();
  readonly #waits = new Map<number, { promise: Promise<void>; resolve: () => void }>();
  #last = 0;

  /** Number of the newest list. */
  get last(): number {
    return this.#last;
  }

  get isIdle(): boolean {
    return !this.#unfinished.size;
  }

  /** Begin a list; return its number. */
  begin(): number {
    this.#unfinished.set(++this.#last, 1);
    return this.#last;
  }

  /** Add batches that come from a list. */
  add(sequence: number, batches: number): void {
    this.#unfinished.set(sequence, (this.#unfinished.get(sequence) ?? 0) + batches);
  }

  /** End a batch. */
  end(sequence: number): void {
    const left = (this.#unfinished.get(sequence) ?? 1) - 1;
    if (left) this.#unfinished.set(sequence, left);
    else this.#unfinished.delete(sequence);
    for (const [last, { resolve }] of this.#waits) {
      if (!this.#hasEnded(last)) continue;
      this.#waits.delete(last);
      resolve();
    }
  }

  /** Wait until all batches of the lists up to a number have ended. */
  ended(sequence: number): Promise<void> {
    if (this.#hasEnded(sequence)) return Promise.resolve();
    let wait = this.#waits.get(sequence);
    if (!wait) {
      let resolve = () => {};
      const promise = new Promise<void>((fulfil) => (resolve = fulfil));
      wait = { promise, resolve };
      this.#waits.set(sequence, wait);
    }
    return wait.promise;
  }

  #hasEnded(sequence: number): boolean {
    // A map has its keys in the order of their insertion, which is ascending.
    const [first] = this.#unfinished.keys();
    return first === undefined || first > sequence;
  }
}
