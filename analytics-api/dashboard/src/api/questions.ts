// stand-in until openapi.json
import { heardWatermark } from '../watermark';
import type * as A from './answers';
import { authorized } from './http';

export type Query = Record<string, string | number | undefined>;
const BASE = '/api/v1/analytics';

export function address(path: string, query: Query): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) params.set(name, String(value));
  return `${BASE}${path}?${params}`;
}

async function get<T extends A.Complete>(path: string, query: Query, signal: AbortSignal): Promise<T> {
  const response = await authorized(
    new Request(address(path, query), { signal, headers: { accept: 'application/json' } }),
  );
  const answer = (await response.json()) as T;
  heardWatermark(answer.completeThrough, answer.incomplete ?? false);
  return answer;
}

export const dashboard = (query: Query, signal: AbortSignal) => get<A.Dashboard>('/dashboard', query, signal);
export const timeseries = (query: Query, signal: AbortSignal) => get<A.Timeseries>('/timeseries', query, signal);
export const contents = (query: Query, signal: AbortSignal) => get<A.Contents>('/content', query, signal);
export const clients = (query: Query, signal: AbortSignal) => get<A.Clients>('/clients', query, signal);
export const models = (query: Query, signal: AbortSignal) => get<A.Models>('/models', query, signal);
export const receipts = (query: Query, signal: AbortSignal) => get<A.Receipts>('/receipts', query, signal);
export const refusals = (query: Query, signal: AbortSignal) => get<A.Refusals>('/refusals', query, signal);
export const entry = (id: string, query: Query, signal: AbortSignal) => get<A.Entry>(`/content/${id}`, query, signal);
export const client = (id: string, query: Query, signal: AbortSignal) => get<A.Client>(`/clients/${id}`, query, signal);
