// A time series as what is drawn: each layer's values, and where its top is on those below.

import type { Timeseries } from '../api/answers';
import { PURPOSES } from '../format';

export interface Layer {
  key: string;
  values: number[];
}

export interface Series {
  /** Starts of the buckets, milliseconds, ascending. */
  starts: number[];
  /** The end of the last bucket. */
  endMs: number;
  /** Bottom first. */
  layers: Layer[];
  totals: number[];
  /** The proven part of each total; null for distinct clients and entries, which don't add up. */
  proven: number[] | null;
}

export function seriesOf(answer: Timeseries): Series {
  const grouped = answer.series ?? [];
  const layers: Layer[] = answer.points
    ? [{ key: answer.metric, values: answer.points.map((point) => point.value) }]
    : PURPOSES.flatMap((purpose) => {
        const found = grouped.find((series) => series.key === purpose);
        return found ? [{ key: purpose, values: found.points.map((point) => point.value) }] : [];
      });
  const points = answer.points ?? grouped[0]?.points ?? [];
  const all = answer.points ? [answer.points] : grouped.map((series) => series.points);
  const starts = points.map((point) => Date.parse(point.start));
  return {
    starts,
    endMs: Date.parse(answer.to),
    layers,
    totals: starts.map((_, at) => sum(layers.map((layer) => layer.values[at] ?? 0))),
    proven:
      answer.metric === 'receipts'
        ? starts.map((_, at) => sum(all.map((layer) => layer[at]?.byTrust.proven ?? 0)))
        : null,
  };
}

/**
 * The columns of a table: all receipts, each layer, and the proven part; distinct things have one.
 */
export function columnsOf({ layers, totals, proven }: Series): Layer[] {
  if (!proven) return layers;
  return [{ key: 'receipts', values: totals }, ...layers, { key: 'proven', values: proven }];
}

/** The tops of the layers, bottom first. */
export function tops(layers: readonly Layer[]): number[][] {
  const below: number[][] = [];
  for (const layer of layers) {
    const under = below[below.length - 1];
    below.push(layer.values.map((value, at) => value + (under?.[at] ?? 0)));
  }
  return below;
}

/**
 * Where the drawing ends: a last bucket that is cut short has as much room as the one before, as it
 * is still growing.
 */
export function drawnEndMs({ starts, endMs }: Series): number {
  const [before, last] = starts.slice(-2);
  return before === undefined || last === undefined ? endMs : Math.max(endMs, last + (last - before));
}

/** The end of bucket `at`. */
export const endOf = (series: Series, at: number): number => series.starts[at + 1] ?? series.endMs;

/** The bucket that holds `ms`; the nearest where none does. */
export function bucketAt(series: Series, ms: number): number {
  let low = 0;
  let high = series.starts.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((series.starts[middle] ?? 0) <= ms) low = middle;
    else high = middle - 1;
  }
  return low;
}

const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0);
