import { OptionsError } from "./errors.js";

/** Bounds and intervals of a client. */
export interface Limits {
  /** Receipts in a batch. */
  readonly batchReceiptsMax: number;
  /** Bytes of a batch's receipts. */
  readonly batchBytesMax: number;
  /** Time until a batch that isn't full is sent. */
  readonly batchDelayMs: number;
  /** Receipts that aren't acknowledged yet. */
  readonly queueReceiptsMax: number;
  /** Bytes of receipts that aren't acknowledged yet. */
  readonly queueBytesMax: number;
  /** Time that `record` waits for room before it throws `QueueFullError`. */
  readonly queueWaitMs: number;
  /** Requests at one time. */
  readonly requestsInFlightMax: number;
  /** Time until a request without an answer is given up and tried again. */
  readonly requestTimeoutMs: number;
  readonly retryDelayMsMin: number;
  readonly retryDelayMsMax: number;
  /** Interval at which the spool is flushed to the disk. */
  readonly syncIntervalMs: number;
  /** Interval at which the spool is searched for what ended clients left. */
  readonly adoptIntervalMs: number;
  /** Time after which the spool gives a batch up. */
  readonly spoolHoursMax: number;
  /** Bytes of refused batches, and of damaged ones, that the spool keeps for people. */
  readonly spoolRetainedBytesMax: number;
}

export const DEFAULT_LIMITS: Limits = {
  batchReceiptsMax: 500,
  batchBytesMax: 1 << 20,
  batchDelayMs: 1_000,
  queueReceiptsMax: 50_000,
  queueBytesMax: 64 << 20,
  queueWaitMs: 1_000,
  requestsInFlightMax: 2,
  requestTimeoutMs: 30_000,
  retryDelayMsMin: 200,
  retryDelayMsMax: 30_000,
  syncIntervalMs: 100,
  adoptIntervalMs: 30_000,
  spoolHoursMax: 72,
  spoolRetainedBytesMax: 64 << 20,
};

const MAY_BE_ZERO: readonly string[] = ["batchDelayMs", "queueWaitMs", "retryDelayMsMin"];

/** Return the limits that options name, and the defaults of the rest. Throws `OptionsError`. */
export function limitsOf(options: Partial<Limits>): Limits {
  const limits: Record<string, number> = { ...DEFAULT_LIMITS };
  for (const name of Object.keys(DEFAULT_LIMITS) as (keyof Limits)[]) {
    const value = options[name];
    if (value === undefined) continue;
    if (!Number.isFinite(value) || value < 0 || (value === 0 && !MAY_BE_ZERO.includes(name))) {
      throw new OptionsError(`${name} is ${value}: give a positive number`);
    }
    limits[name] = value;
  }
  const checked = limits as unknown as Limits;
  if (checked.batchReceiptsMax > 10_000 || checked.batchBytesMax > 8 << 20) {
    throw new OptionsError("the service takes at most 10,000 receipts and 8 MiB in a batch");
  }
  return checked;
}
