import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { serverNow } from '../clock';
import { follower } from './follow';

describe('a follower', () => {
  const page = new EventTarget() as EventTarget & { visibilityState: string };

  beforeEach(() => {
    vi.useFakeTimers();
    vi.stubGlobal('document', page);
    page.visibilityState = 'visible';
  });

  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  it('looks once in a while, however often it is asked to', () => {
    const began = serverNow();
    let last = began;
    const looks: number[] = [];
    const also = vi.fn();
    const follow = follower(
      () => {
        last = serverNow();
        looks.push(last);
      },
      () => last,
    );
    for (let second = 0; second < 300; second++) {
      follow(second % 2 ? also : undefined);
      vi.advanceTimersByTime(1_000);
    }
    expect(looks.length).toBeGreaterThanOrEqual(4);
    expect(also).toHaveBeenCalledTimes(looks.length);
    [began, ...looks].reduce((before, now) => {
      expect(now - before).toBeGreaterThanOrEqual(60_000);
      return now;
    });
  });

  it('is not at the same instant as others', () => {
    const times = new Set<number>();
    for (let n = 0; n < 50; n++) {
      follower(
        () => times.add(Date.now()),
        () => 0,
      )();
    }
    vi.advanceTimersByTime(5_000);
    expect(times.size).toBeGreaterThan(10);
  });

  it('waits until somebody looks', () => {
    const look = vi.fn();
    page.visibilityState = 'hidden';
    follower(look, () => 0)();
    vi.advanceTimersByTime(60_000);
    expect(look).not.toHaveBeenCalled();
    page.dispatchEvent(new Event('visibilitychange'));
    expect(look).toHaveBeenCalledTimes(1);
  });
});
