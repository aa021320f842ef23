// How numbers and times are written: for people, in the chosen time zone.

export const PURPOSES = ['training', 'inference', 'research'] as const;
export type Purpose = (typeof PURPOSES)[number];

const LOCALE = 'en-GB';
const whole = new Intl.NumberFormat(LOCALE);
// British English writes 3.4m, which reads as metres or minutes.
const short = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 });

export const count = (value: number): string => whole.format(value);

/** For an axis: 1.2K, 3M. */
export const compact = (value: number): string => (value < 10_000 ? whole.format(value) : short.format(value));

/** `part` of `all` as 12.3%; nothing of nothing is a dash. Only all is 100%, and only none 0%. */
export function share(part: number, all: number): string {
  if (all === 0) return '–';
  const percent = (part / all) * 100;
  if (part === 0) return '0%';
  if (percent < 0.1) return '<0.1%';
  if (part < all && percent >= 99.5) return '>99%';
  return `${percent < 10 ? percent.toFixed(1) : Math.round(percent)}%`;
}

export interface Change {
  direction: 'more' | 'less' | 'same';
  /** `+12.4%`, `−3%`, `×24`; without an earlier value, words. */
  text: string;
}

/** What became of `before`. */
export function change(now: number, before: number): Change {
  if (now === before) return { direction: 'same', text: 'no change' };
  const direction = now > before ? 'more' : 'less';
  if (before === 0) return { direction, text: 'new' };
  const ratio = now / before;
  if (ratio >= 10) return { direction, text: `×${whole.format(Math.round(ratio))}` };
  const percent = Math.abs(ratio - 1) * 100;
  const figure = percent < 10 ? percent.toFixed(1) : String(Math.round(percent));
  return { direction, text: `${direction === 'more' ? '+' : '−'}${figure}%` };
}

const formats = new Map<string, Intl.DateTimeFormat>();

/** A formatter of this zone, made once: making one costs more than using it. */
function format(tz: string, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = `${tz} ${JSON.stringify(options)}`;
  const cached = formats.get(key);
  if (cached) return cached;
  const made = new Intl.DateTimeFormat(LOCALE, { timeZone: tz, hourCycle: 'h23', ...options });
  formats.set(key, made);
  return made;
}

export const clock = (ms: number, tz: string): string => format(tz, { timeStyle: 'medium' }).format(ms);
export const hourMinute = (ms: number, tz: string): string => format(tz, { timeStyle: 'short' }).format(ms);
export const dayMonth = (ms: number, tz: string): string => format(tz, { day: 'numeric', month: 'short' }).format(ms);
export const monthYear = (ms: number, tz: string): string => format(tz, { month: 'short', year: 'numeric' }).format(ms);
export const date = (ms: number, tz: string): string =>
  format(tz, { day: 'numeric', month: 'short', year: 'numeric' }).format(ms);
export const dateTime = (ms: number, tz: string): string =>
  `${format(tz, { day: 'numeric', month: 'short', year: 'numeric' }).format(ms)}, ${hourMinute(ms, tz)}`;
export const weekdayDate = (ms: number, tz: string): string =>
  format(tz, { weekday: 'short', day: 'numeric', month: 'short' }).format(ms);

/** `UTC+01:00`, as the zone has it at that instant. */
export function offsetName(ms: number, tz: string): string {
  const parts = format(tz, { timeZoneName: 'longOffset', hour: 'numeric' }).formatToParts(ms);
  const name = parts.find((part) => part.type === 'timeZoneName')?.value ?? 'GMT';
  return /^GMT([+-]00:00)?$/.test(name) ? 'UTC' : name.replace('GMT', 'UTC');
}

/** A span in its two greatest units: `3 min 4 s`, `2 h`, `12 days`. */
export function span(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return two(seconds, 60, 'min', 1, 's');
  if (seconds < 2 * 86_400) return two(seconds, 3600, 'h', 60, 'min');
  const days = Math.round(seconds / 8640) / 10;
  return `${days} days`;
}

function two(seconds: number, greater: number, greaterName: string, lesser: number, lesserName: string): string {
  const first = Math.floor(seconds / greater);
  const rest = Math.floor((seconds % greater) / lesser);
  return rest === 0 ? `${first} ${greaterName}` : `${first} ${greaterName} ${rest} ${lesserName}`;
}

/** A reason's stable name as words: `bad_signature` as `Bad signature`. */
export function words(name: string): string {
  const text = name.replaceAll('_', ' ');
  return text.charAt(0).toUpperCase() + text.slice(1);
}

export const plural = (n: number, one: string, many = `${one}s`): string => `${count(n)} ${n === 1 ? one : many}`;
