// Where the visitor is and what they selected: all of it in the address after #, so that back,
// reload and bookmarks work. The key is never part of it.

import { computed, signal } from '@preact/signals';
import { PURPOSES, type Purpose } from './format';
import { INTERVALS, type Interval, isDay, PRESETS, type Preset, type Range } from './ranges';
import { isZone, ownZone } from './zones';

/** A client is an ID and a key; without a key, the view is of all keys that use the ID. */
export type View =
  | { name: 'overview' }
  | { name: 'content'; id: string }
  | { name: 'client'; id: string; fingerprint: string | null }
  | { name: 'unknown' };

export const METRICS = ['receipts', 'clients', 'content'] as const;
export type Metric = (typeof METRICS)[number];

export const TRUSTS = ['proven', 'unproven'] as const;
export type Trust = (typeof TRUSTS)[number];

export interface PageLocation {
  view: View;
  range: Range;
  interval: Interval | 'auto';
  tz: string;
  metric: Metric;
  purpose: Purpose | null;
  modelId: string | null;
  trust: Trust | null;
  domain: string | null;
}

const DEFAULT_RANGE: Range = { preset: '7d' };
const TEXT_CHARS_MAX = 256;

export function parseLocation(hash: string): PageLocation {
  const [path = '', query = ''] = hash.replace(/^#/, '').split('?', 2);
  const params = new URLSearchParams(query);
  const tz = params.get('tz');
  return {
    view: parseView(path),
    range: parseRange(params.get('range')),
    interval: oneOf(INTERVALS, params.get('interval')) ?? 'auto',
    tz: tz && isZone(tz) ? tz : ownZone(),
    metric: oneOf(METRICS, params.get('metric')) ?? 'receipts',
    purpose: oneOf(PURPOSES, params.get('purpose')),
    modelId: text(params.get('model')),
    trust: oneOf(TRUSTS, params.get('trust')),
    domain: text(params.get('domain')),
  };
}

export function locationHash(pageLocation: PageLocation): string {
  const params = new URLSearchParams();
  const range = rangeText(pageLocation.range);
  if (range !== rangeText(DEFAULT_RANGE)) params.set('range', range);
  if (pageLocation.interval !== 'auto') params.set('interval', pageLocation.interval);
  if (pageLocation.tz !== ownZone()) params.set('tz', pageLocation.tz);
  if (pageLocation.metric !== 'receipts') params.set('metric', pageLocation.metric);
  if (pageLocation.purpose) params.set('purpose', pageLocation.purpose);
  if (pageLocation.modelId) params.set('model', pageLocation.modelId);
  if (pageLocation.trust) params.set('trust', pageLocation.trust);
  if (pageLocation.domain) params.set('domain', pageLocation.domain);
  const path = viewPath(pageLocation.view);
  // What needs no escape there is easier to read.
  const text = params.toString().replaceAll('%2F', '/').replaceAll('%3A', ':');
  return text ? `#${path}?${text}` : `#${path}`;
}

function viewPath(view: View): string {
  if (view.name === 'overview') return '/';
  if (view.name === 'unknown') return '/unknown';
  if (view.name === 'content') return `/content/${view.id}`;
  return view.fingerprint === null ? `/clients/${view.id}` : `/clients/${view.id}/${view.fingerprint}`;
}

function parseView(path: string): View {
  if (path === '' || path === '/') return { name: 'overview' };
  const [, kind, id = '', key = ''] = path.split('/', 4);
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id)) {
    if (kind === 'content') return { name: 'content', id: id.toLowerCase() };
    const fingerprint = /^[0-9a-f]{64}$/i.test(key) ? key.toLowerCase() : null;
    if (kind === 'clients') return { name: 'client', id: id.toLowerCase(), fingerprint };
  }
  return { name: 'unknown' };
}

function parseRange(value: string | null): Range {
  const preset = oneOf(PRESETS, value);
  if (preset) return { preset: preset satisfies Preset };
  const [from = '', to = ''] = (value ?? '').split('..', 2);
  if (isDay(from) && isDay(to) && from <= to) return { fromDay: from, toDay: to };
  const [fromMs, toMs] = [Date.parse(from), Date.parse(to)];
  if (/^\d{4}-.*Z$/.test(from) && /^\d{4}-.*Z$/.test(to) && fromMs < toMs) return { fromMs, toMs };
  return DEFAULT_RANGE;
}

function rangeText(range: Range): string {
  if ('preset' in range) return range.preset;
  if ('fromDay' in range) return `${range.fromDay}..${range.toDay}`;
  return `${new Date(range.fromMs).toISOString()}..${new Date(range.toMs).toISOString()}`;
}

function oneOf<T extends string>(values: readonly T[], value: string | null): T | null {
  return values.find((one) => one === value) ?? null;
}

function text(value: string | null): string | null {
  return value && value.length <= TEXT_CHARS_MAX ? value : null;
}

const hash = signal(typeof location === 'undefined' ? '' : location.hash);
if (typeof addEventListener === 'function') addEventListener('hashchange', () => (hash.value = location.hash));

/** The present location. */
export const pageLocation = computed(() => parseLocation(hash.value));

/** Path of the console's view, if the location is one of its; it reads its own addresses. */
export const consolePath = computed(
  () => /^#(\/(?:settings|welcome)(?:\/[^?]*)?)(?:\?|$)/.exec(hash.value)?.[1] ?? null,
);

/** A link to the location with these changes. */
export const linkTo = (changes: Partial<PageLocation>): string => locationHash({ ...pageLocation.value, ...changes });

/** Goes there; the way back stays open. */
export function go(changes: Partial<PageLocation>): void {
  location.hash = linkTo(changes);
}

/**
 * What was on show before each zoom, by the range that was zoomed to: the browser's Back and
 * Forward lead past any order.
 */
const zoomed = new Map<string, Pick<PageLocation, 'range' | 'interval'>>();
const ZOOMS_MAX = 50;

export function zoomTo(fromMs: number, toMs: number): void {
  const { range, interval } = pageLocation.peek();
  const to: Range = { fromMs, toMs };
  zoomed.set(rangeText(to), { range, interval });
  for (const first of zoomed.keys()) if (zoomed.size > ZOOMS_MAX) zoomed.delete(first);
  go({ range: to, interval: 'auto' });
}

/** To what was on show before; a page that was opened on a zoomed range has no such. */
export function zoomOut(): void {
  go(zoomed.get(rangeText(pageLocation.peek().range)) ?? { range: DEFAULT_RANGE, interval: 'auto' });
}
