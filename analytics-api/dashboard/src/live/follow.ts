// The rest of the page follows the stream: soon, but not often, not while nobody looks, and not
// every page at the same instant.

import { serverNow } from '../clock';

/** Between two looks: their questions count towards the key's quota. */
const FOLLOW_MS_MIN = 60_000;
/** Pages that heard the same at the same time ask within so long. */
const SPREAD_MS = 5_000;

/**
 * Has `look` called later, once for any number of calls; `lastMs` tells when everything was checked
 * at last.
 */
export function follower(look: () => void, lastMs: () => number): (also?: () => void) => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let besides: (() => void) | undefined;
  const now = () => {
    const also = besides;
    besides = undefined;
    look();
    also?.();
  };
  return (also) => {
    besides = also ?? besides;
    if (timer !== undefined) return;
    const wait = Math.max(0, lastMs() + FOLLOW_MS_MIN - serverNow()) + Math.random() * SPREAD_MS;
    timer = setTimeout(() => {
      timer = undefined;
      if (document.visibilityState === 'visible') now();
      else document.addEventListener('visibilitychange', now, { once: true });
    }, wait);
  };
}
