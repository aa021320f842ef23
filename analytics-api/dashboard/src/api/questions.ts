// What this page asks, through a client that knows from the OpenAPI document what may be asked and
// what is answered.

import createClient from 'openapi-fetch';
import { heardWatermark } from '../watermark';
import type { Completeness } from './answers';
import { authorized } from './http';
import type { operations, paths } from './schema';

const api = createClient<paths, 'application/json'>({
  baseUrl: '',
  fetch: authorized,
  headers: { accept: 'application/json' },
});

type QueryOf<Name extends keyof operations> = NonNullable<operations[Name]['parameters']['query']>;

/** Range, zone and filters, as all questions take them. */
export type Filter = Pick<
  QueryOf<'timeseries'>,
  | 'from'
  | 'to'
  | 'tz'
  | 'purpose'
  | 'modelId'
  | 'trust'
  | 'operator'
  | 'domain'
  | 'clientId'
  | 'keyFingerprint'
  | 'entryId'
>;

/** What isn't an answer was thrown on the way. */
async function heard<T extends Completeness>(asked: Promise<{ data?: T; response: Response }>): Promise<T> {
  const { data, response } = await asked;
  if (data === undefined) throw new Error('an answer without content');
  // The same numbers out of the browser's cache are complete further than when they were first
  // reported: then the header knows better.
  const through = response.headers.get('x-complete-through');
  const incomplete = through === null ? data.incomplete : response.headers.get('x-incomplete') === 'true';
  heardWatermark(through ?? data.completeThrough, incomplete ?? false);
  return data;
}

const BASE = '/api/v1/analytics';

export const dashboard = (query: QueryOf<'dashboard'>, signal: AbortSignal) =>
  heard(api.GET(`${BASE}/dashboard`, { params: { query }, signal }));
export const timeseries = (query: QueryOf<'timeseries'>, signal: AbortSignal) =>
  heard(api.GET(`${BASE}/timeseries`, { params: { query }, signal }));
export const contents = (query: QueryOf<'content'>, signal: AbortSignal) =>
  heard(api.GET(`${BASE}/content`, { params: { query }, signal }));
export const clients = (query: QueryOf<'clients'>, signal: AbortSignal) =>
  heard(api.GET(`${BASE}/clients`, { params: { query }, signal }));
export const models = (query: QueryOf<'models'>, signal: AbortSignal) =>
  heard(api.GET(`${BASE}/models`, { params: { query }, signal }));
export const operators = (query: QueryOf<'operators'>, signal: AbortSignal) =>
  heard(api.GET(`${BASE}/operators`, { params: { query }, signal }));
export const refusals = (query: QueryOf<'refusals'>, signal: AbortSignal) =>
  heard(api.GET(`${BASE}/refusals`, { params: { query }, signal }));
export const receipts = (query: QueryOf<'receipts'>, signal: AbortSignal) =>
  heard(api.GET(`${BASE}/receipts`, { params: { query }, signal }));
export const entry = (entryId: string, query: QueryOf<'entry'>, signal: AbortSignal) =>
  heard(api.GET(`${BASE}/content/{entryId}`, { params: { path: { entryId }, query }, signal }));
export const client = (clientId: string, query: QueryOf<'client'>, signal: AbortSignal) =>
  heard(api.GET(`${BASE}/clients/{clientId}`, { params: { path: { clientId }, query }, signal }));

type Value = string | number | undefined;

/** Address of the same as a table. */
export function address(path: string, query: Record<string, Value | string[]>): string {
  const params = new URLSearchParams();
  for (const [name, given] of Object.entries(query))
    for (const value of [given].flat()) if (value !== undefined) params.append(name, String(value));
  return `${BASE}${path}?${params}`;
}
