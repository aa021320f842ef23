import type { Rejection } from "./errors.js";
import type { Logger } from "./logger.js";

/** Names of metrics. Each value is a number of receipts, or of retries. */
export type Metric = "recorded" | "acknowledged" | "rejected" | "retries";

/** Functions of the caller. */
export interface Hooks {
  /** Gets each receipt that the service refused. The batch stays in the spool until it returns. */
  readonly onRejected?: ((rejection: Rejection) => void | Promise<void>) | undefined;
  /** Gets the changes of counters. */
  readonly onMetric?: ((name: Metric, value: number) => void) | undefined;
  /** Gets a promise that is fulfilled when everything recorded has its final answer. */
  readonly waitUntil?: ((promise: Promise<unknown>) => void) | undefined;
  /** Gets warnings and errors; `console` unless given. */
  readonly logger?: Logger | undefined;
}

/** Calls the caller's functions. What they throw is logged. */
export class Caller {
  readonly #hooks: Hooks;
  readonly logger: Logger;

  constructor(hooks: Hooks) {
    this.#hooks = hooks;
    this.logger = hooks.logger ?? console;
  }

  measure(name: Metric, value: number): void {
    try {
      this.#hooks.onMetric?.(name, value);
    } catch (error) {
      this.logger.error(`onMetric failed: ${String(error)}`);
    }
  }

  async reject(rejection: Rejection): Promise<void> {
    const { receiptId, code, detail } = rejection;
    this.logger.error(`receipt ${receiptId} was refused: ${code} ${detail}`);
    this.measure("rejected", 1);
    try {
      await this.#hooks.onRejected?.(rejection);
    } catch (error) {
      this.logger.error(`onRejected failed: ${String(error)}`);
    }
  }

  get wantsToWait(): boolean {
    return this.#hooks.waitUntil !== undefined;
  }

  waitUntil(promise: Promise<unknown>): void {
    this.#hooks.waitUntil?.(promise);
  }
}
