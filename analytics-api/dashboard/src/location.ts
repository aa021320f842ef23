// Where the visitor is and what they selected: all of it in the address after #, so that back,
// reload and bookmarks work. The key is never part of it.

import { computed, signal } from '@preact/signals';
import { PURPOSES, type Purpose } from './format';
import { INTERVALS, type Interval, isDay, PRESETS, type Preset, type Range } from './ranges';
import { isZone, ownZone } from './zones';

/** One title, or one service: an ID and a key, or without a key all keys that use the ID. */
export type Detail = { name: 'content'; id: string } | { name: 'service'; id: string; fingerprint: string | null };

/** Orders of each list that its headings offer, as the API names them. */
export const SORTS = {
  content: ['-receiptCount', 'receiptCount', '-lastSeen', 'lastSeen'],
  services: ['-receiptCount', 'receiptCount', '-lastSeen', 'lastSeen', '-name', 'name'],
  models: ['-receiptCount', 'receiptCount', '-uniqueClients', 'uniqueClients', '-modelId', 'modelId'],
  operators: ['-receiptCount', 'receiptCount', '-uniqueClients', 'uniqueClients', '-operator', 'operator'],
} as const;
export type List = keyof typeof SORTS;
const LISTS = Object.keys(SORTS) as List[];

/** A page behind the first one: where it begins, and how many rows are before it. */
export interface ListPage {
  cursor: string;
  before: number;
}

/** All rows of a list, or those that belong to one title or service. */
export interface ListView {
  name: 'list';
  list: List;
  of: Detail | null;
  sort: string;
  search: string;
  page: ListPage | null;
}

export type View = { name: 'overview' } | Detail | ListView | { name: 'unknown' };

export const METRICS = ['receipts', 'clients', 'content'] as const;
export type Metric = (typeof METRICS)[number];

export const TRUSTS = ['proven', 'unproven'] as const;
export type Trust = (typeof TRUSTS)[number];

/** What changes are against. */
export const COMPARISONS = ['previous', 'year'] as const;
export type Comparison = (typeof COMPARISONS)[number];

export interface PageLocation {
  view: View;
  range: Range;
  interval: Interval | 'auto';
  tz: string;
  metric: Metric;
  compare: Comparison;
  purpose: Purpose | null;
  modelId: string | null;
  trust: Trust | null;
  operator: string | null;
  domain: string | null;
}

const DEFAULT_RANGE: Range = { preset: '7d' };
const TEXT_CHARS_MAX = 256;
export const SEARCH_CHARS_MAX = 200;
const CURSOR_CHARS_MAX = 1024;
const [DEFAULT_SORT] = SORTS.content;

export function parseLocation(hash: string): PageLocation {
  const [path = '', query = ''] = hash.replace(/^#/, '').split('?', 2);
  const params = new URLSearchParams(query);
  const tz = params.get('tz');
  return {
    view: parseView(path, params),
    range: parseRange(params.get('range')),
    interval: oneOf(INTERVALS, params.get('interval')) ?? 'auto',
    tz: tz && isZone(tz) ? tz : ownZone(),
    metric: oneOf(METRICS, params.get('metric')) ?? 'receipts',
    compare: oneOf(COMPARISONS, params.get('compare')) ?? 'previous',
    purpose: oneOf(PURPOSES, params.get('purpose')),
    modelId: text(params.get('model')),
    trust: oneOf(TRUSTS, params.get('trust')),
    operator: text(params.get('operator')),
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
  if (pageLocation.compare !== 'previous') params.set('compare', pageLocation.compare);
  if (pageLocation.purpose) params.set('purpose', pageLocation.purpose);
  if (pageLocation.modelId) params.set('model', pageLocation.modelId);
  if (pageLocation.trust) params.set('trust', pageLocation.trust);
  if (pageLocation.operator) params.set('operator', pageLocation.operator);
  if (pageLocation.domain) params.set('domain', pageLocation.domain);
  const { view } = pageLocation;
  if (view.name === 'list') {
    if (view.sort !== DEFAULT_SORT) params.set('sort', view.sort);
    if (view.search) params.set('q', view.search);
    if (view.page) {
      params.set('before', String(view.page.before));
      params.set('cursor', view.page.cursor);
    }
  }
  const path = viewPath(view);
  // What needs no escape there is easier to read.
  const text = params.toString().replaceAll('%2F', '/').replaceAll('%3A', ':');
  return text ? `#${path}?${text}` : `#${path}`;
}

/** What identifies a view; pages and orders of a list are one view. */
export function viewPath(view: View): string {
  switch (view.name) {
    case 'overview':
      return '/';
    case 'content':
      return `/content/${view.id}`;
    case 'service':
      return view.fingerprint === null ? `/services/${view.id}` : `/services/${view.id}/${view.fingerprint}`;
    case 'list':
      return `${view.of ? viewPath(view.of) : ''}/${view.list}`;
    case 'unknown':
      return '/unknown';
  }
}

const UUID = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}';
const DETAIL = new RegExp(`^/(?:content/(${UUID})|services/(${UUID})(?:/([0-9a-f]{64}))?)(?=/|$)`);

function parseView(path: string, params: URLSearchParams): View {
  if (path === '' || path === '/') return { name: 'overview' };
  const [found = '', content, service, fingerprint = null] = DETAIL.exec(path.toLowerCase()) ?? [];
  const of: Detail | null = content
    ? { name: 'content', id: content }
    : service
      ? { name: 'service', id: service, fingerprint }
      : null;
  const rest = path.slice(found.length);
  if (of && rest === '') return of;
  const list = LISTS.find((name) => rest === `/${name}`);
  // A title has services, and a service has titles.
  if (!list || (content && list !== 'services') || (service && list !== 'content')) return { name: 'unknown' };
  return {
    name: 'list',
    list,
    of,
    sort: oneOf<string>(SORTS[list], params.get('sort')) ?? DEFAULT_SORT,
    search: (params.get('q') ?? '').slice(0, SEARCH_CHARS_MAX),
    page: parsePage(params.get('cursor'), params.get('before')),
  };
}

function parsePage(cursor: string | null, before: string | null): ListPage | null {
  if (!cursor || cursor.length > CURSOR_CHARS_MAX) return null;
  return { cursor, before: /^\d{1,9}$/.test(before ?? '') ? Number(before) : 0 };
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

/** A list from its first row on. */
export const listView = (list: List, of: Detail | null = null): ListView => ({
  name: 'list',
  list,
  of,
  sort: DEFAULT_SORT,
  search: '',
  page: null,
});

/**
 * A link to the location with these changes. Another selection of a list begins at its first row.
 */
export function linkTo(changes: Partial<PageLocation>): string {
  const now = pageLocation.value;
  const view = now.view.name === 'list' ? { ...now.view, page: null } : now.view;
  return locationHash({ ...now, view, ...changes });
}

/** Path of the console's view, if the location is one of its; it reads its own addresses. */
export const consolePath = computed(
  () => /^#(\/(?:settings|welcome)(?:\/[^?]*)?)(?:\?|$)/.exec(hash.value)?.[1] ?? null,
);

/** Goes there; the way back stays open. */
export function go(changes: Partial<PageLocation>): void {
  location.hash = linkTo(changes);
}

/** Goes there instead of where the visitor is: for what changes with each letter. */
export function replace(changes: Partial<PageLocation>): void {
  history.replaceState(null, '', linkTo(changes));
  hash.value = location.hash;
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
