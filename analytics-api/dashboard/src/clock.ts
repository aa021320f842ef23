// The time as the server has it: a visitor's clock may be minutes off, and "now" decides what a
// range holds.

let aheadMs = 0;

/** From an answer's `Date`, which is cut to the second. */
export function heardFromServer(date: string | null): void {
  const ms = Date.parse(date ?? '');
  if (Number.isNaN(ms)) return;
  const off = ms + 500 - Date.now();
  // Within the header's precision and the way here, the visitor's clock is as good.
  aheadMs = Math.abs(off) < 1500 ? 0 : off;
}

export const serverNow = (): number => Date.now() + aheadMs;
