import { ClosedError, QueueFullError } from "./errors.js";
import type { Limits } from "./options.js";

interface Waiter {
  readonly bytes: number;
  readonly timer: ReturnType<typeof setTimeout>;
  readonly grant: () => void;
  readonly refuse: (error: Error) => void;
}

/** The bound of unacknowledged receipts and their bytes. The first to wait gets room first. */
export class Room {
  readonly #limits: Limits;
  readonly #waiters = new Set<Waiter>();
  #waitingBytes = 0;
  receipts = 0;
  bytes = 0;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  /** Take room for a receipt, which may take up to `queueWaitMs`. Throws `QueueFullError`. */
  async take(bytes: number): Promise<void> {
    if (!this.#waiters.size && this.#hasRoom(bytes)) return this.add(1, bytes);
    const { queueReceiptsMax, queueBytesMax, queueWaitMs } = this.#limits;
    if (this.#waiters.size >= queueReceiptsMax || this.#waitingBytes + bytes > queueBytesMax) {
      throw this.#full();
    }
    return new Promise((resolve, reject) => {
      const leave = () => {
        clearTimeout(waiter.timer);
        this.#waiters.delete(waiter);
        this.#waitingBytes -= bytes;
      };
      const waiter: Waiter = {
        bytes,
        timer: setTimeout(() => waiter.refuse(this.#full()), queueWaitMs),
        grant: () => {
          leave();
          this.add(1, bytes);
          resolve();
        },
        refuse: (error) => {
          leave();
          reject(error);
        },
      };
      this.#waiters.add(waiter);
      this.#waitingBytes += bytes;
    });
  }

  /** Change what is taken, with negative numbers for what becomes free. */
  add(receipts: number, bytes: number): void {
    this.receipts += receipts;
    this.bytes += bytes;
    if (receipts > 0) return;
    for (const waiter of this.#waiters) {
      if (!this.#hasRoom(waiter.bytes)) return;
      waiter.grant();
    }
  }

  /** Refuse all that wait. */
  close(): void {
    for (const waiter of this.#waiters) waiter.refuse(new ClosedError("the client is closed"));
  }

  #hasRoom(bytes: number): boolean {
    const { queueReceiptsMax, queueBytesMax } = this.#limits;
    return this.receipts < queueReceiptsMax && this.bytes + bytes <= queueBytesMax;
  }

  #full(): QueueFullError {
    return new QueueFullError(
      `${this.receipts} receipts wait for their acknowledgement: record again later, ` +
        "or raise queueReceiptsMax and queueBytesMax",
    );
  }
}
