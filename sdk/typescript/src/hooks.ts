import type { AcknowledgedBatch } from "./acknowledgement.js";
import type { Rejection } from "./errors.js";
import type { Logger } from "./logger.js";
import type { Use } from "./use.js";

/**
 * Names of metrics. `request_s` is the duration of a request in seconds; each other value is a
 * number to add up: of receipts, of uses that `record` didn't record (`failed`), or of retries.
 * conformance/README.md has the list of all client libraries.
 */
export type Metric =
  | "recorded"
  | "acknowledged"
  | "rejected"
  | "damaged"
  | "failed"
  | "retries"
  | "request_s";

/** Functions of the caller. */
export interface Hooks {
  /** Gets each acknowledged batch. The batch stays in the spool until it returns. */
  readonly onAcknowledged?: ((batch: AcknowledgedBatch) => void | Promise<void>) | undefined;
  /**
   * Gets each receipt that ended without an acknowledgement. What the service refused stays in the
   * spool until it returns.
   */
  readonly onRejected?: ((rejection: Rejection) => void | Promise<void>) | undefined;
  /** Gets each use that `record` or `submit` failed to record, and why. */
  readonly onFailed?: ((error: unknown, use: Use) => void | Promise<void>) | undefined;
  /** Gets the changes of counters. */
  readonly onMetric?: ((name: Metric, value: number) => void) | undefined;
  /** Gets a promise that is fulfilled when everything recorded has its final answer. */
  readonly waitUntil?: ((promise: Promise<unknown>) => void) | undefined;
  /** Gets warnings and errors; `console` unless given. */
  readonly logger?: Logger | undefined;
}

// Failed uses are logged at once, and further ones of this time together.
const FAILURES_INTERVAL_MS = 1_000;

/** Calls the caller's functions. What they throw is logged. */
export class Caller {
  readonly #hooks: Hooks;
  readonly logger: Logger;
  #unlogged = 0;
  #lastFailure: unknown;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(hooks: Hooks) {
    this.#hooks = hooks;
    const logger = hooks.logger ?? console;
    this.logger = {
      warn: (message) => attempt(() => logger.warn(message)),
      error: (message) => attempt(() => logger.error(message)),
    };
  }

  measure(name: Metric, value: number): void {
    try {
      this.#hooks.onMetric?.(name, value);
    } catch (error) {
      this.logger.error(`onMetric failed: ${String(error)}`);
    }
  }

  /** Report a use that wasn't recorded. */
  fail(error: unknown, use: Use): void {
    this.measure("failed", 1);
    this.#unlogged++;
    this.#lastFailure = error;
    if (!this.#timer) this.logFailures();
    void this.#call("onFailed", () => this.#hooks.onFailed?.(error, use));
  }

  /** Log the failed uses that aren't logged yet. */
  logFailures(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (!this.#unlogged) return;
    const uses = this.#unlogged === 1 ? "a use wasn't" : `${this.#unlogged} uses weren't`;
    this.#unlogged = 0;
    this.logger.error(`${uses} recorded: ${String(this.#lastFailure)}`);
    this.#timer = setTimeout(() => this.logFailures(), FAILURES_INTERVAL_MS);
    (this.#timer as { unref?: () => void }).unref?.();
  }

  async acknowledge(batch: AcknowledgedBatch): Promise<void> {
    await this.#call("onAcknowledged", () => this.#hooks.onAcknowledged?.(batch));
  }

  /** Report receipts of a batch that end without an acknowledgement. */
  async reject(
    rejections: readonly Rejection[],
    metric: "rejected" | "damaged" = "rejected",
  ): Promise<void> {
    const [first] = rejections;
    if (!first) return;
    const { code, detail } = first;
    const receiptId = first.receiptId || "with an ID that can't be read";
    const others = rejections.length > 1 ? ` and ${rejections.length - 1} others` : "";
    this.logger.error(`receipt ${receiptId}${others} ended unacknowledged: ${code}: ${detail}`);
    this.measure(metric, rejections.length);
    await Promise.all(
      rejections.map((one) => this.#call("onRejected", () => this.#hooks.onRejected?.(one))),
    );
  }

  get wantsToWait(): boolean {
    return this.#hooks.waitUntil !== undefined;
  }

  waitUntil(promise: Promise<unknown>): void {
    this.#hooks.waitUntil?.(promise);
  }

  async #call(name: keyof Hooks, hook: () => unknown): Promise<void> {
    try {
      await hook();
    } catch (error) {
      this.logger.error(`${name} failed: ${String(error)}`);
    }
  }
}

/** Call a logger, whose own failure must not end a delivery. */
function attempt(log: () => void): void {
  try {
    log();
  } catch {
    // There is nowhere to report it.
  }
}
