// uPlot as this page uses it: bars on bars, hairlines, time in the chosen zone, a drag that names a
// span of buckets.

import uPlot from 'uplot';
import { clock, compact, dayMonth, hourMinute, monthYear } from '../format';
import { sinceMidnightMs } from '../ranges';
import { bucketAt, drawnEndMs, endOf, type Series, tops } from './stack';

export interface PlotOptions {
  tz: string;
  /** What falls behind it may still grow. */
  completeMs: number | null;
  onHover: (bucket: number | null) => void;
  onSelect: (from: number, to: number) => void;
}

/** Beyond it single bars can't be distinguished: then one outline per layer. */
const BARS_MAX = 240;
const HOUR_S = 3600;
const DAY_S = 86_400;

export function plot(into: HTMLElement, series: Series, options: PlotOptions): uPlot {
  const style = getComputedStyle(into);
  const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const font = `11px ${style.fontFamily}`;
  const many = series.starts.length > BARS_MAX;
  const paths = many ? uPlot.paths.stepped?.({ align: 1 }) : uPlot.paths.bars?.({ size: [0.86, 72], align: 1, gap: 0 });
  const axis: uPlot.Axis = {
    stroke: colour('ink-soft'),
    font,
    ticks: { show: false },
    grid: { stroke: colour('rule'), width: 1 },
  };
  // The tallest first: each lower layer is drawn over it.
  const stacked = tops(series.layers).reverse();
  const layers = [...series.layers].reverse();
  const made = new uPlot(
    {
      width: Math.max(200, into.clientWidth),
      height: Math.max(120, into.clientHeight),
      padding: [10, 0, 0, 0],
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), options.tz),
      legend: { show: false },
      cursor: {
        y: false,
        points: { show: false },
        drag: { x: true, y: false, setScale: false, dist: 6 },
      },
      scales: {
        x: { range: () => [(series.starts[0] ?? 0) / 1000, drawnEndMs(series) / 1000] },
        y: { range: (_, __, max) => [0, max > 0 ? max * 1.04 : 4] },
      },
      axes: [
        {
          ...axis,
          grid: { show: false },
          size: 28,
          space: 74,
          values: ({ scales }, splits, __, ___, increment) => {
            // A label at the very end would be cut.
            const { min = 0, max = 0 } = scales.x ?? {};
            const end = (max ?? 0) - ((max ?? 0) - (min ?? 0)) * 0.025;
            return splits.map((at) => (at > end ? '' : label(at, increment, options.tz)));
          },
        },
        {
          ...axis,
          size: (_, values) => 14 + 7 * Math.max(3, ...(values ?? []).map((value) => value.length)),
          space: 44,
          incrs: [1, 2, 5]
            .flatMap((n) => Array.from({ length: 12 }, (_, power) => n * 10 ** power))
            .sort((a, b) => a - b),
          values: (_, splits) => splits.map(compact),
        },
      ],
      series: [
        {},
        ...layers.map((layer) => ({
          fill: colour(`series-${layer.key}`),
          width: 0,
          points: { show: false },
          ...(paths && { paths }),
        })),
      ],
      hooks: {
        setCursor: [
          (u) => {
            const left = u.cursor.left ?? -1;
            options.onHover(left < 0 ? null : bucketAt(series, u.posToVal(left, 'x') * 1000));
          },
        ],
        setSelect: [
          (u) => {
            const { left, width } = u.select;
            if (width < 1) return;
            const from = bucketAt(series, u.posToVal(left, 'x') * 1000);
            const to = bucketAt(series, u.posToVal(left + width, 'x') * 1000);
            u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            options.onSelect(from, to);
          },
        ],
        draw: [(u) => markCompleteness(u, options.completeMs, series, colour('ink'), colour('veil'))],
      },
    },
    [series.starts.map((ms) => ms / 1000), ...stacked],
    into,
  );
  // The page's own elements speak for the chart.
  made.root.setAttribute('aria-hidden', 'true');
  return made;
}

/** Whether completeness ends within what is drawn. */
export function mayGrow(series: Series, completeMs: number): boolean {
  const first = series.starts[0];
  return first !== undefined && completeMs > first && completeMs < drawnEndMs(series);
}

/** A hairline where completeness ends, and a veil over what may still grow. */
function markCompleteness(u: uPlot, completeMs: number | null, series: Series, ink: string, veil: string): void {
  if (completeMs === null || !mayGrow(series, completeMs)) return;
  const { ctx, bbox } = u;
  const x = Math.round(u.valToPos(completeMs / 1000, 'x', true));
  const right = bbox.left + bbox.width;
  // Too near the edge to be seen.
  if (right - x < 3 * devicePixelRatio) return;
  ctx.save();
  ctx.fillStyle = veil;
  ctx.fillRect(x, bbox.top, right - x, bbox.height);
  ctx.strokeStyle = ink;
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  ctx.restore();
}

function label(seconds: number, increment: number, tz: string): string {
  const ms = seconds * 1000;
  if (increment >= 28 * DAY_S) return monthYear(ms, tz);
  if (increment >= DAY_S) return dayMonth(ms, tz);
  if (increment < 60) return clock(ms, tz);
  return increment >= HOUR_S && sinceMidnightMs(ms, tz) === 0 ? dayMonth(ms, tz) : hourMinute(ms, tz);
}

/** Puts the cursor on a bucket, or takes it away; for the keyboard. */
export function pointAt(u: uPlot, series: Series, bucket: number | null, anchor: number | null): void {
  if (bucket === null) {
    u.setCursor({ left: -10, top: -10 }, false);
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    return;
  }
  const position = (ms: number) => u.valToPos(ms / 1000, 'x');
  const middle = ((series.starts[bucket] ?? 0) + endOf(series, bucket)) / 2;
  u.setCursor({ left: position(middle), top: 0 }, false);
  const from = Math.min(bucket, anchor ?? bucket);
  const to = Math.max(bucket, anchor ?? bucket);
  const left = position(series.starts[from] ?? 0);
  const width = anchor === null ? 0 : position(endOf(series, to)) - left;
  u.setSelect({ left, top: 0, width, height: u.over.clientHeight }, false);
}
