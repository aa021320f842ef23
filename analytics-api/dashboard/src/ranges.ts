// Which time a selection is about, in a time zone, and which intervals suit it. Where a day begins
// is the API's to say: it is given dates, and what is reckoned here only estimates lengths.

export const PRESETS = ['1h', '24h', '7d', '30d', '90d', 'month'] as const;
export type Preset = (typeof PRESETS)[number];

/** In full, and as a phone has room for. */
export const PRESET_NAMES: Record<Preset, readonly [string, string]> = {
  '1h': ['Last hour', '1 h'],
  '24h': ['24 hours', '24 h'],
  '7d': ['7 days', '7 d'],
  '30d': ['30 days', '30 d'],
  '90d': ['90 days', '90 d'],
  month: ['This month', 'Month'],
};

/** Days from and to, both included; or instants, `to` excluded. */
export type Range = { preset: Preset } | { fromDay: string; toDay: string } | { fromMs: number; toMs: number };

export const INTERVALS = ['minute', 'hour', 'day', 'week', 'month'] as const;
export type Interval = (typeof INTERVALS)[number];

const INTERVAL_MS: Record<Interval, number> = {
  minute: 60_000,
  hour: 3_600_000,
  day: 86_400_000,
  week: 7 * 86_400_000,
  month: 30 * 86_400_000,
};

/**
 * The API answers 2,000 points in all, three purposes share them; a range may cut its first and
 * last.
 */
const POINTS_MAX = 600;
const POINTS_COMFORTABLE = 200;

/**
 * As the API takes it; the length is exact but for a day that a clock change makes longer or
 * shorter.
 */
export interface Resolved {
  from: string;
  to: string;
  lengthMs: number;
  /** Whether it ends now. Lists then leave `to` out: they are made from sums of whole days. */
  isOpen: boolean;
}

const MINUTE_MS = 60_000;
const HALF_HOUR_MS = 30 * MINUTE_MS;
const DAY_MS = 86_400_000;

/**
 * `range` as of `nowMs`: up to the end of this half hour, so that nothing new is left out, answers
 * can be compared, and the API reads sums of whole half hours instead of receipts. Ranges that may
 * be short end with this minute: a half hour would distort the comparison with the period before.
 */
export function resolve(range: Range, tz: string, nowMs: number): Resolved {
  const isShort =
    'preset' in range && (range.preset === '1h' || (range.preset === 'month' && dayOf(nowMs, tz).endsWith('-01')));
  const unitMs = isShort ? MINUTE_MS : HALF_HOUR_MS;
  const endMs = Math.ceil((nowMs + 1) / unitMs) * unitMs;
  // Where midnight isn't at a half hour of UTC, the range must not begin another local day.
  const midnightMs = endMs - sinceMidnightMs(endMs, tz);
  const toMs = midnightMs > nowMs ? midnightMs : endMs;
  const instants = (fromMs: number): Resolved => ({
    from: iso(fromMs),
    to: iso(toMs),
    lengthMs: toMs - fromMs,
    isOpen: true,
  });
  if ('fromMs' in range) {
    return { from: iso(range.fromMs), to: iso(range.toMs), lengthMs: range.toMs - range.fromMs, isOpen: false };
  }
  if ('fromDay' in range) {
    const end = addDays(range.toDay, 1);
    return { from: range.fromDay, to: end, lengthMs: daysBetween(range.fromDay, end) * DAY_MS, isOpen: false };
  }
  const today = dayOf(nowMs, tz);
  const days = (n: number): Resolved => {
    const from = addDays(today, 1 - n);
    return { from, to: iso(toMs), lengthMs: (n - 1) * DAY_MS + sinceMidnightMs(toMs - 1, tz) + 1, isOpen: true };
  };
  switch (range.preset) {
    case '1h':
      return instants(toMs - 60 * MINUTE_MS);
    case '24h': {
      // From the start of an hour of the local clock, so that no bar is cut but the present one.
      const intoHour = sinceMidnightMs(toMs - 1, tz) % (60 * MINUTE_MS);
      return instants(toMs - 1 - intoHour - 23 * 60 * MINUTE_MS);
    }
    case '7d':
      return days(7);
    case '30d':
      return days(30);
    case '90d':
      return days(90);
    case 'month':
      return days(Number(today.slice(8)));
  }
}

/** Those that the API answers for a range of this length, and that have two points or more. */
export function intervalsFor(lengthMs: number): Interval[] {
  const fitting = INTERVALS.filter((interval) => {
    const points = lengthMs / INTERVAL_MS[interval];
    return points <= POINTS_MAX && points >= 1.5;
  });
  return fitting.length > 0 ? fitting : [lengthMs < DAY_MS ? 'minute' : 'month'];
}

/** `wanted` if it fits, else the finest one that isn't crowded. */
export function intervalFor(wanted: Interval | 'auto', lengthMs: number): Interval {
  const fitting = intervalsFor(lengthMs);
  if (wanted !== 'auto' && fitting.includes(wanted)) return wanted;
  const comfortable = fitting.find((interval) => lengthMs / INTERVAL_MS[interval] <= POINTS_COMFORTABLE);
  return comfortable ?? fitting[fitting.length - 1] ?? 'day';
}

/** The length of an interval in use; a month's is an estimate. */
export const intervalMs = (interval: Interval): number => INTERVAL_MS[interval];

/** The local date, `2026-11-21`. */
export function dayOf(ms: number, tz: string): string {
  const { year, month, day } = local(ms, tz);
  return `${pad(year, 4)}-${pad(month)}-${pad(day)}`;
}

export function sinceMidnightMs(ms: number, tz: string): number {
  const { hour, minute, second } = local(ms, tz);
  return ((hour * 60 + minute) * 60 + second) * 1000 + (ms % 1000);
}

/** Civil dates; no time zone is involved. */
export function addDays(day: string, days: number): string {
  return new Date(Date.parse(`${day}T00:00:00Z`) + days * DAY_MS).toISOString().slice(0, 10);
}

function daysBetween(from: string, to: string): number {
  return (Date.parse(`${to}T00:00:00Z`) - Date.parse(`${from}T00:00:00Z`)) / DAY_MS;
}

/** A date that the calendar has. */
export function isDay(text: string): boolean {
  return /^\d{4}-\d\d-\d\d$/.test(text) && addDaysOrNothing(text) === text;
}

function addDaysOrNothing(day: string): string | null {
  const ms = Date.parse(`${day}T00:00:00Z`);
  return Number.isNaN(ms) ? null : new Date(ms).toISOString().slice(0, 10);
}

interface Local {
  year: number;
  month: number;
  day: number;
  hour: number;
  minute: number;
  second: number;
}

const clocks = new Map<string, Intl.DateTimeFormat>();

function local(ms: number, tz: string): Local {
  let clock = clocks.get(tz);
  if (!clock) {
    clock = new Intl.DateTimeFormat('en-US', {
      timeZone: tz,
      calendar: 'gregory',
      numberingSystem: 'latn',
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
    clocks.set(tz, clock);
  }
  const parts = clock.formatToParts(ms);
  const part = (type: keyof Local) => Number(parts.find((found) => found.type === type)?.value ?? 0);
  return {
    year: part('year'),
    month: part('month'),
    day: part('day'),
    hour: part('hour'),
    minute: part('minute'),
    second: part('second'),
  };
}

const pad = (value: number, length = 2) => String(value).padStart(length, '0');
export const iso = (ms: number): string => new Date(ms).toISOString();
