// A view's totals and its chart, as one load. Receipts arrive between two requests, so the totals
// of receipts are the sums of what the chart shows.

import type { PurposeCounts, Timeseries, TotalsByTrust } from '../api/answers';
import { type Filter, timeseries } from '../api/questions';
import { type Asked, useAsk } from '../ask';
import { seriesOf } from '../chart/stack';
import type { Purpose } from '../format';
import type { Chosen } from './chosen';

interface Totals {
  totalReceipts: number;
  usageByPurpose: PurposeCounts;
  byTrust: TotalsByTrust;
}

export interface Numbers<T> {
  totals: T;
  series: Timeseries;
}

/** The chart's request: by purpose where receipts are counted. */
export function seriesQuery({ query, range, interval, location: { metric } }: Chosen, filter: Filter) {
  const groupBy = metric === 'receipts' ? { groupBy: 'purpose' as const } : {};
  return { ...query, to: range.to, ...filter, metric, interval, ...groupBy };
}

/** `query` is what `ask` requests the totals with. */
export function useNumbers<T extends Totals>(
  query: object,
  series: ReturnType<typeof seriesQuery>,
  ask: (signal: AbortSignal) => Promise<T>,
): Asked<Numbers<T>> {
  return useAsk(JSON.stringify([query, series]), async (signal) => {
    const [totals, values] = await Promise.all([ask(signal), timeseries(series, signal)]);
    return { totals: asCharted(totals, values), series: values };
  });
}

/** These totals with the chart's receipts; distinct things of a chart have no sum. */
export function asCharted<T extends Totals>(totals: T, values: Timeseries): T {
  const { totals: all, proven, layers } = seriesOf(values);
  if (!proven) return totals;
  const part = (purpose: Purpose) => sum(layers.find(({ key }) => key === purpose)?.values ?? []);
  const { byTrust } = totals;
  const trusted = (name: 'proven' | 'unproven', totalReceipts: number) => ({ ...byTrust[name], totalReceipts });
  return {
    ...totals,
    totalReceipts: sum(all),
    usageByPurpose: { training: part('training'), inference: part('inference'), research: part('research') },
    byTrust: { proven: trusted('proven', sum(proven)), unproven: trusted('unproven', sum(all) - sum(proven)) },
  };
}

const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0);
