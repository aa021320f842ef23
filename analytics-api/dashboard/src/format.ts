// How numbers and times are written: for people, in the chosen time zone.

export const PURPOSES = ['training', 'inference', 'research'] as const;
export type Purpose = (typeof PURPOSES)[number];

/** The browser's languages; its words aside, the page is in English. */
const LOCALE = locales();
const whole = new Intl.NumberFormat(LOCALE);
const decimal = new Intl.NumberFormat(LOCALE, { maximumFractionDigits: 1 });
const [percent, percentTenths] = [0, 1].map((digits) => {
  const options = { style: 'percent', minimumFractionDigits: digits, maximumFractionDigits: digits } as const;
  return new Intl.NumberFormat(LOCALE, options);
}) as [Intl.NumberFormat, Intl.NumberFormat];
// British English writes 3.4m, which reads as metres or minutes.
const short = new Intl.NumberFormat(/^en/.test(LOCALE[0] ?? '') ? 'en-US' : LOCALE, {
  notation: 'compact',
  maximumFractionDigits: 1,
});

function locales(): string[] {
  try {
    return Intl.getCanonicalLocales([...navigator.languages]);
  } catch {
    // No browser, or a language that is none.
    return ['en-GB'];
  }
}

export const count = (value: number): string => whole.format(value);

/** For an axis: 1.2K, 3M. */
export const compact = (value: number): string => (value < 10_000 ? whole.format(value) : short.format(value));

/** `part` of `all` as 12.3%; nothing of nothing is a dash. Only all is 100%, and only none 0%. */
export function share(part: number, all: number): string {
  if (all === 0) return '–';
  const ratio = part / all;
  if (part === 0) return percent.format(0);
  if (ratio < 0.001) return `<${percentTenths.format(0.001)}`;
  if (part < all && ratio >= 0.995) return `>${percent.format(0.99)}`;
  return figure(ratio);
}

/** Tenths of a percent where they say something. */
const figure = (ratio: number): string => (ratio < 0.1 ? percentTenths : percent).format(ratio);

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
  return { direction, text: `${direction === 'more' ? '+' : '−'}${figure(Math.abs(ratio - 1))}` };
}

const formats = new Map<string, Intl.DateTimeFormat>();

/** A formatter of this zone, made once: making one costs more than using it. */
function format(tz: string, options: Intl.DateTimeFormatOptions, locale = LOCALE): Intl.DateTimeFormat {
  const key = `${tz} ${JSON.stringify(options)} ${locale}`;
  const cached = formats.get(key);
  if (cached) return cached;
  const made = new Intl.DateTimeFormat(locale, { timeZone: tz, ...options });
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
  format(tz, { dateStyle: 'medium', timeStyle: 'short' }).format(ms);
export const weekdayDate = (ms: number, tz: string): string =>
  format(tz, { weekday: 'short', day: 'numeric', month: 'short' }).format(ms);

/** `UTC+01:00`, as the zone has it at that instant. */
export function offsetName(ms: number, tz: string): string {
  const parts = format(tz, { timeZoneName: 'longOffset', hour: 'numeric' }, ['en-GB']).formatToParts(ms);
  const name = parts.find((part) => part.type === 'timeZoneName')?.value ?? 'GMT';
  return /^GMT([+-]00:00)?$/.test(name) ? 'UTC' : name.replace('GMT', 'UTC');
}

/** A span in its two greatest units: `3 min 4 s`, `2 h`, `12 days`. */
export function span(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return two(seconds, 60, 'min', 1, 's');
  if (seconds < 2 * 86_400) return two(seconds, 3600, 'h', 60, 'min');
  return `${decimal.format(seconds / 86_400)} days`;
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

/** What this page calls the things that the API counts. */
const NAMES: Record<string, string> = { receipts: 'uses', clients: 'AI services', content: 'titles' };
export const named = (counted: string): string => NAMES[counted] ?? counted;

export const plural = (n: number, one: string, many = `${one}s`): string => `${count(n)} ${n === 1 ? one : many}`;
