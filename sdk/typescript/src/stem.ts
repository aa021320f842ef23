// The name of a batch's files without their suffix: the time of its first receipt, and its ID. A
// journal whose batch exists is so known as a leftover.

import { newId } from "./uuid.js";

/** Return the name of a new batch. */
export function newStem(atMs = Date.now()): string {
  return `${atMs}-${newId()}`;
}

/** Return the ID of a batch. */
export function batchIdOf(stem: string): string {
  return stem.slice(stem.indexOf("-") + 1);
}

/** Return the time of a batch's first receipt, in milliseconds since 1970. */
export function timeMsOf(stem: string): number {
  return Number.parseInt(stem, 10);
}
