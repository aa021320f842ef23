// One request with the visitor's key or session. Anything but a success is thrown as a `Problem`; a
// key that doesn't hold any more ends the session.

import { heardFromServer } from '../clock';
import { credential, isCurrent, signOut } from '../session';
import { Problem, problemOf } from './problem';

/** `fetch`, as this API wants it. */
export async function authorized(request: Request): Promise<Response> {
  const used = credential();
  if (used === null) throw new Problem(401, 'missing_api_key', 'Sign in first.');
  const headers = new Headers(request.headers);
  if (used.key !== null) headers.set('authorization', `Bearer ${used.key}`);
  if (used.csrfToken !== null && request.method !== 'GET') headers.set('x-csrf-token', used.csrfToken);
  const credentials = used.key === null ? 'same-origin' : 'omit';
  let response: Response;
  try {
    response = await fetch(
      new Request(request, { headers, credentials, redirect: 'error', referrerPolicy: 'no-referrer' }),
    );
  } catch (cause) {
    if (request.signal.aborted) throw cause;
    throw new Problem(0, 'unreachable', '');
  }
  heardFromServer(response.headers.get('date'));
  if (response.ok) return response;
  const problem = await problemOf(response);
  if (problem.status === 401 && isCurrent(used)) signOut(problem);
  throw problem;
}

export const isAbort = (error: unknown): boolean => error instanceof DOMException && error.name === 'AbortError';

/** Whatever was thrown, as a problem. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem(0, 'unexpected', error instanceof Error ? error.message : String(error));
}
