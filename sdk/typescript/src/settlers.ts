import type { Rejection } from "./errors.js";

/** Gets a receipt's final answer: nothing if it is acknowledged. */
export type Settle = (problem: Rejection | Error | undefined) => void;

/** Callers that wait for the final answer to a receipt. */
export class Settlers {
  readonly #byReceipt = new Map<string, Settle[]>();

  get size(): number {
    return this.#byReceipt.size;
  }

  add(receiptId: string, settle: Settle): void {
    const others = this.#byReceipt.get(receiptId);
    if (others) others.push(settle);
    else this.#byReceipt.set(receiptId, [settle]);
  }

  settle(receiptId: string, problem: Parameters<Settle>[0]): void {
    const settles = this.#byReceipt.get(receiptId);
    this.#byReceipt.delete(receiptId);
    for (const settle of settles ?? []) settle(problem);
  }

  settleAll(problem: Error): void {
    for (const receiptId of [...this.#byReceipt.keys()]) this.settle(receiptId, problem);
  }
}
