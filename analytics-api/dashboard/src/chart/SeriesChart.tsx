// The chart with what belongs to it: the values of the bucket pointed at, zoom by drag or keys, and
// words for who can't see it.

import { useEffect, useRef, useState } from 'preact/hooks';
import type uPlot from 'uplot';
import { count, dateTime, hourMinute, named, plural, weekdayDate, words } from '../format';
import type { Interval } from '../ranges';
import { theme } from '../theme';
import { mayGrow, plot, pointAt } from './plot';
import { columnsOf, endOf, type Series } from './stack';

interface Props {
  series: Series;
  interval: Interval;
  tz: string;
  completeMs: number | null;
  /** What is counted: `receipts`. */
  noun: string;
  /** Asked for with the instants of whole buckets; nothing where it can't be zoomed any further. */
  onZoom: ((fromMs: number, toMs: number) => void) | null;
}

export function SeriesChart({ series, interval, tz, completeMs, noun, onZoom }: Props) {
  const into = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const [bucket, setBucket] = useState<number | null>(null);
  const [anchor, setAnchor] = useState<number | null>(null);
  const shownTheme = theme.value;
  const zoom = (a: number, b: number) => {
    const [from, to] = a < b ? [a, b] : [b, a];
    const start = series.starts[from];
    if (start !== undefined && !(from === 0 && to === series.starts.length - 1)) onZoom?.(start, endOf(series, to));
  };
  const zoomTo = useRef(zoom);
  zoomTo.current = zoom;

  useEffect(() => {
    const host = into.current;
    if (!host || series.starts.length === 0) return;
    const made = plot(host, series, {
      tz,
      completeMs,
      onHover: setBucket,
      onSelect: (from, to) => zoomTo.current(from, to),
    });
    chart.current = made;
    const sized = new ResizeObserver(() => made.setSize({ width: host.clientWidth, height: host.clientHeight }));
    sized.observe(host);
    return () => {
      sized.disconnect();
      chart.current = null;
      made.destroy();
    };
  }, [series, tz, completeMs === null ? null : Math.floor(completeMs / 60_000), shownTheme]);

  useEffect(() => {
    setBucket(null);
    setAnchor(null);
  }, [series]);

  const last = series.starts.length - 1;
  const at = bucket === null ? null : Math.min(bucket, last);

  function move(to: number, extend: boolean) {
    const next = Math.max(0, Math.min(last, to));
    const from = extend ? (anchor ?? at ?? next) : null;
    setAnchor(from);
    setBucket(next);
    if (chart.current) pointAt(chart.current, series, next, from);
  }

  function onKeyDown(event: KeyboardEvent) {
    const now = at ?? last;
    const page = Math.max(1, Math.round(series.starts.length / 10));
    const steps: Record<string, number> = {
      ArrowLeft: at === null ? last : now - 1,
      ArrowDown: at === null ? last : now - 1,
      ArrowRight: at === null ? last : now + 1,
      ArrowUp: at === null ? last : now + 1,
      PageUp: now + page,
      PageDown: now - page,
      Home: 0,
      End: last,
    };
    const step = steps[event.key];
    if (step !== undefined) move(step, event.shiftKey);
    else if (event.key === 'Enter' && at !== null && onZoom) zoom(anchor ?? at, at);
    else if (event.key === 'Escape') {
      setBucket(null);
      setAnchor(null);
      if (chart.current) pointAt(chart.current, series, null, null);
    } else return;
    event.preventDefault();
  }

  const reading = read(series, at, anchor, interval, tz);
  const spoken = `${reading.when}: ${reading.values.map(({ key, value }) => `${named(key)} ${count(value)}`).join(', ')}`;
  return (
    <div class="chart">
      <p class="reading" aria-hidden="true">
        <span class="when">{reading.when}</span>
        {reading.values.map(({ key, value }) => (
          <span key={key}>
            <i class={`swatch ${key}`} />
            {words(named(key))} <b>{count(value)}</b>
          </span>
        ))}
        {at === null && (
          <span class="hint">
            {onZoom && 'Drag to zoom'}
            {completeMs !== null && mayGrow(series, completeMs) && ' · dashed: complete so far'}
          </span>
        )}
      </p>
      {/* A slider over the buckets: what arrow keys do is standard, and its value is read out. */}
      <div
        class="plot"
        ref={into}
        role="slider"
        tabIndex={0}
        aria-label={`${words(noun)} over time, ${plural(series.starts.length, interval)}`}
        aria-describedby="chart-keys"
        aria-orientation="horizontal"
        aria-valuemin={0}
        aria-valuemax={Math.max(0, last)}
        aria-valuenow={at ?? Math.max(0, last)}
        aria-valuetext={spoken}
        onKeyDown={onKeyDown}
      />
      <p class="unseen" id="chart-keys">
        Arrow keys go from {interval} to {interval}.{' '}
        {onZoom ? 'With Shift they select a span, Enter zooms into it, Escape lets go. ' : ''}
        The same numbers are in the table.
      </p>
    </div>
  );
}

/**
 * The bucket, or the span from `anchor` to it, in words and numbers; everything where none is
 * pointed at.
 */
function read(series: Series, at: number | null, anchor: number | null, interval: Interval, tz: string) {
  const from = at === null ? 0 : Math.min(at, anchor ?? at);
  const to = at === null ? series.starts.length - 1 : Math.max(at, anchor ?? at);
  const start = series.starts[from] ?? 0;
  const sum = (values: number[]) => values.slice(from, to + 1).reduce((all, value) => all + value, 0);
  const spanned = when(start, endOf(series, to), from === to ? interval : null, tz);
  // Distinct clients of two hours aren't the sum of both.
  if (!series.proven && from !== to) return { when: spanned, values: [] };
  const values = columnsOf(series).map(({ key, values }) => ({ key, value: sum(values) }));
  return { when: spanned, values };
}

export function when(startMs: number, endMs: number, interval: Interval | null, tz: string): string {
  if (interval === 'day') return weekdayDate(startMs, tz);
  if (interval === 'minute' || interval === 'hour')
    return `${weekdayDate(startMs, tz)}, ${hourMinute(startMs, tz)}–${hourMinute(endMs, tz)}`;
  return `${dateTime(startMs, tz)} – ${dateTime(endMs, tz)}`;
}
