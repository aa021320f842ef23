// Up to when the numbers on show are complete, by what the API said last.

import { computed, signal } from '@preact/signals';
import { serverNow } from './clock';
import { failing } from './loads';

interface Heard {
  throughMs: number;
  incomplete: boolean;
  /** When it was said. */
  atMs: number;
}

const heard = signal<Heard | null>(null);

/** Ticks each second, for ages. */
export const tick = signal(serverNow());
if (typeof window !== 'undefined') setInterval(() => (tick.value = serverNow()), 1000);

/** An answer behind by more than this is worth a warning: usually it is under a second. */
export const BEHIND_MS_MAX = 15_000;

/** The stream repeats its totals more often than this, so silence is worth a warning. */
export const SILENCE_MS_MAX = 90_000;

/** From any answer. */
export function heardWatermark(completeThrough: string, incomplete: boolean): void {
  const throughMs = Date.parse(completeThrough);
  if (Number.isNaN(throughMs)) return;
  const last = heard.peek();
  // Answers may overtake each other; time doesn't go back.
  if (last && throughMs < last.throughMs && incomplete === last.incomplete) return;
  heard.value = { throughMs, incomplete, atMs: serverNow() };
}

export function forgetWatermark(): void {
  heard.value = null;
}

export type Completeness =
  | { state: 'unknown' }
  | { state: 'complete' | 'behind' | 'incomplete' | 'stale'; throughMs: number; behindMs: number };

export const completeness = computed<Completeness>(() => {
  const last = heard.value;
  if (!last) return { state: 'unknown' };
  const behindMs = Math.max(0, last.atMs - last.throughMs);
  const isOld = tick.value - last.atMs > SILENCE_MS_MAX;
  const state = last.incomplete
    ? 'incomplete'
    : failing.value || isOld
      ? 'stale'
      : behindMs > BEHIND_MS_MAX
        ? 'behind'
        : 'complete';
  return { state, throughMs: last.throughMs, behindMs };
});
