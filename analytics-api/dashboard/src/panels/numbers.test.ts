import { describe, expect, it } from 'vitest';
import type { Timeseries } from '../api/answers';
import { asCharted } from './numbers';

const point = (proven: number, unproven: number) => ({
  start: '2026-11-28T00:00:00Z',
  local: '2026-11-28T00:00:00Z',
  value: proven + unproven,
  byTrust: { proven, unproven },
});
const answer = {
  interval: 'hour',
  tz: 'UTC',
  from: '2026-11-28T00:00:00Z',
  to: '2026-11-28T02:00:00Z',
  completeThrough: '2026-11-28T02:00:00Z',
};
const counts = (totalReceipts: number) => ({
  totalReceipts,
  uniqueClients: 2,
  usageByPurpose: { training: 1, inference: 1, research: 1 },
});
const totals = { ...counts(3), byTrust: { proven: counts(1), unproven: counts(2) } };

describe('totals', () => {
  it('of receipts are what the chart shows, whatever arrived in between', () => {
    const series: Timeseries = {
      ...answer,
      metric: 'receipts',
      series: [
        { key: 'training', label: 'training', points: [point(1, 1), point(2, 0)] },
        { key: 'research', label: 'research', points: [point(0, 3), point(0, 0)] },
      ],
    };
    const shown = asCharted(totals, series);
    expect(shown.totalReceipts).toBe(7);
    expect(shown.usageByPurpose).toEqual({ training: 4, inference: 0, research: 3 });
    expect([shown.byTrust.proven.totalReceipts, shown.byTrust.unproven.totalReceipts]).toEqual([3, 4]);
    expect(shown.uniqueClients).toBe(2);
  });

  it('stay where the chart counts distinct things', () => {
    expect(asCharted(totals, { ...answer, metric: 'clients', points: [point(2, 1)] })).toEqual(totals);
  });
});
