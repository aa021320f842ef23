import type { Limits } from "./options.js";

/**
 * Return the time before the next try in milliseconds: full jitter between `retryDelayMsMin` and a
 * bound, which doubles with each failure up to `retryDelayMsMax`. `failures` counts from 1.
 */
export function backoffMs(failures: number, random: number, limits: Limits): number {
  const { retryDelayMsMin, retryDelayMsMax } = limits;
  const bound = Math.min(retryDelayMsMax, retryDelayMsMin * 2 ** Math.min(failures, 30));
  return retryDelayMsMin + random * Math.max(0, bound - retryDelayMsMin);
}

/** Return the milliseconds of a `Retry-After` (RFC 9110, section 10.2.3), from `now` on. */
export function retryAfterMs(value: string | null, now: number): number {
  if (!value) return 0;
  if (/^\s*\d+\s*$/.test(value)) return Number(value) * 1_000;
  const date = Date.parse(value);
  return Number.isNaN(date) ? 0 : Math.max(0, date - now);
}
