// Requests to the publisher's addresses, with the session of the person.

import { authorized } from '../api/http';

export type QueryValue = string | number | boolean | null | undefined;

/** `path` with the members of `query` that have a value. */
export function withQuery(path: string, query: Record<string, QueryValue>): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (value !== undefined && value !== null && value !== '') params.set(name, String(value));
  return params.size > 0 ? `${path}?${params}` : path;
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const response = await authorized(
    new Request(path, { headers: { accept: 'application/json' }, signal: signal ?? null }),
  );
  return (await response.json()) as T;
}

/** Sends `body` as JSON, or as the lines of JSON that it is; null if there is no content. */
export async function send<T>(
  method: 'POST' | 'PUT' | 'PATCH' | 'DELETE',
  path: string,
  body?: object | string,
): Promise<T> {
  const headers = new Headers({ accept: 'application/json' });
  if (body !== undefined)
    headers.set('content-type', typeof body === 'string' ? 'application/x-ndjson' : 'application/json');
  const text = typeof body === 'object' ? JSON.stringify(body) : (body ?? null);
  const response = await authorized(new Request(path, { method, headers, body: text }));
  return (response.status === 204 ? null : await response.json()) as T;
}
