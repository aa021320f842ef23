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
  /** Whether buckets add up: receipts do, distinct clients and entries don't. */
  adds: boolean;
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
  const starts = points.map((point) => Date.parse(point.start));
  return {
    starts,
    endMs: Date.parse(answer.to),
    layers,
    totals: starts.map((_, at) => sumAt(layers, at)),
    adds: answer.metric === 'receipts',
  };
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

const sumAt = (layers: readonly Layer[], at: number) => layers.reduce((sum, layer) => sum + (layer.values[at] ?? 0), 0);
