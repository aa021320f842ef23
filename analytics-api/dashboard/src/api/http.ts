// One request with the session's key. Anything but a success is thrown as a `Problem`; a key that
// doesn't hold any more ends the session.

import { heardFromServer } from '../clock';
import { key, signOut } from '../session';
import { Problem, problemOf } from './problem';

/** `fetch`, as this API wants it. */
export async function authorized(request: Request): Promise<Response> {
  const asked = key.peek();
  if (asked === null) throw new Problem(401, 'missing_api_key', 'Sign in first.');
  const headers = new Headers(request.headers);
  headers.set('authorization', `Bearer ${asked}`);
  let response: Response;
  try {
    response = await fetch(
      new Request(request, { headers, credentials: 'omit', redirect: 'error', referrerPolicy: 'no-referrer' }),
    );
  } catch (cause) {
    if (request.signal.aborted) throw cause;
    throw new Problem(0, 'unreachable', '');
  }
  heardFromServer(response.headers.get('date'));
  if (response.ok) return response;
  const problem = await problemOf(response);
  if (problem.status === 401 && key.peek() === asked) signOut(problem);
  throw problem;
}

export const isAbort = (error: unknown): boolean => error instanceof DOMException && error.name === 'AbortError';

/** Whatever was thrown, as a problem. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem(0, 'unexpected', error instanceof Error ? error.message : String(error));
}
