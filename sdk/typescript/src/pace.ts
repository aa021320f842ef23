import { backoffMs } from "./backoff.js";
import type { Limits } from "./options.js";

/**
 * The pause of all requests after a failed one: others would fail as well, or be too many. Times
 * are those of `performance.now()`.
 */
export class Pace {
  readonly #limits: Limits;
  /** Failed requests since the last that didn't fail. */
  #failures = 0;
  #failedAt = 0;
  #retryAfter = 0;
  #pausedUntil = 0;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  /** The time before which no request begins. */
  get pausedUntil(): number {
    return this.#pausedUntil;
  }

  succeed(): void {
    this.#failures = 0;
  }

  /**
   * Note a failed request that began at `begunAt`; return the pause of its batch, whose failures
   * are `attempts`.
   */
  fail(begunAt: number, retryAfterMs: number, attempts: number): number {
    const now = performance.now();
    // Requests that were in flight together fail together.
    if (begunAt >= this.#failedAt) this.#failures++;
    this.#failedAt = now;
    const random = Math.random();
    const pauseMs = retryAfterMs + backoffMs(this.#failures, random, this.#limits);
    this.#pausedUntil = Math.max(this.#pausedUntil, now + pauseMs);
    this.#retryAfter = Math.max(this.#retryAfter, now + retryAfterMs);
    return retryAfterMs + backoffMs(attempts, random, this.#limits);
  }

  /** End the pause, but not before `Retry-After`. */
  resume(): void {
    this.#pausedUntil = this.#retryAfter;
  }
}
