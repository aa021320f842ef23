// Beyond 2^31 - 1 ms, timers end at once.
export const TIMER_MS_MAX = 2 ** 31 - 1;

/**
 * Return whether a promise is fulfilled in time. Meanwhile the process doesn't end for a lack of
 * work.
 */
export async function within(promise: Promise<unknown>, timeoutMs: number): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), Math.min(timeoutMs, TIMER_MS_MAX));
  });
  try {
    return await Promise.race([promise.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}
