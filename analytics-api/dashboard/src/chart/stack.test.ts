import { describe, expect, it } from 'vitest';
import type { Timeseries } from '../api/answers';
import { bucketAt, columnsOf, endOf, seriesOf, tops } from './stack';

const HOUR_MS = 3_600_000;
const points = (values: number[]) =>
  values.map((value, at) => {
    const start = new Date(at * HOUR_MS).toISOString();
    return { start, local: start, value, byTrust: { proven: Math.min(1, value), unproven: value } };
  });
const answer = (rest: Partial<Timeseries>): Timeseries =>
  ({
    metric: 'receipts',
    interval: 'hour',
    tz: 'UTC',
    from: new Date(0).toISOString(),
    to: new Date(3.5 * HOUR_MS).toISOString(),
    completeThrough: new Date(0).toISOString(),
    ...rest,
  }) as Timeseries;

describe('a series', () => {
  const grouped = seriesOf(
    answer({
      series: [
        { key: 'research', label: 'research', points: points([5, 0, 2, 1]) },
        { key: 'training', label: 'training', points: points([1, 2, 3, 4]) },
        { key: 'inference', label: 'inference', points: points([0, 0, 1, 0]) },
      ],
    }),
  );

  it('has its layers in one order, whichever is most', () => {
    expect(grouped.layers.map((layer) => layer.key)).toEqual(['training', 'inference', 'research']);
    expect(grouped.totals).toEqual([6, 2, 6, 5]);
    expect(tops(grouped.layers)).toEqual([
      [1, 2, 3, 4],
      [1, 2, 4, 4],
      [6, 2, 6, 5],
    ]);
    expect(grouped.proven).toEqual([2, 1, 3, 2]);
    expect(columnsOf(grouped).map(({ key }) => key)).toEqual([
      'receipts',
      'training',
      'inference',
      'research',
      'proven',
    ]);
  });

  it('finds buckets by time', () => {
    expect([-5, 0, HOUR_MS - 1, HOUR_MS, 3.2 * HOUR_MS, 99 * HOUR_MS].map((ms) => bucketAt(grouped, ms))).toEqual([
      0, 0, 0, 1, 3, 3,
    ]);
    expect(endOf(grouped, 2)).toBe(3 * HOUR_MS);
    expect(endOf(grouped, 3)).toBe(3.5 * HOUR_MS);
  });

  it('of distinct things is one layer that doesn’t add up', () => {
    const clients = seriesOf(answer({ metric: 'clients', points: points([3, 1]) }));
    expect(clients.layers).toEqual([{ key: 'clients', values: [3, 1] }]);
    expect(clients.proven).toBeNull();
    expect(columnsOf(clients)).toEqual(clients.layers);
  });
});
