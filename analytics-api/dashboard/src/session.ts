// The API key: in the tab's session storage while signed in, in a header of each request, and
// nowhere else. Or a person's session, whose cookie no script can read: the page has its token for
// requests that change something.

import { computed, signal } from '@preact/signals';
import { type Problem, problemOf } from './api/problem';

const STORED_AS = 'receipts.key';
const SESSION = '/api/v1/auth/session';
/** Remembers that there may be a session: a page without one asks for none. */
const HAS_SESSION = 'receipts.session';

export const key = signal<string | null>(stored());

/** The token of a person's session. */
const csrfToken = signal<string | null>(null);

export const signedIn = computed(() => key.value !== null || csrfToken.value !== null);

/** What a request is sent with; none before the visitor is signed in. */
export interface Credential {
  key: string | null;
  csrfToken: string | null;
}

export function credential(): Credential | null {
  return signedIn.peek() ? { key: key.peek(), csrfToken: csrfToken.peek() } : null;
}

export const isCurrent = (used: Credential): boolean => used.key === key.peek() && used.csrfToken === csrfToken.peek();

/** Finds the session that a sign-in has begun, or an earlier visit. */
export async function findSession(): Promise<void> {
  const url = new URL(location.href);
  try {
    if (url.searchParams.has('session')) {
      url.searchParams.delete('session');
      history.replaceState(null, '', url);
      localStorage.setItem(HAS_SESSION, 'yes');
    }
    if (key.peek() !== null || localStorage.getItem(HAS_SESSION) === null) return;
    const response = await fetch(SESSION, { credentials: 'same-origin', redirect: 'error', cache: 'no-store' });
    if (response.ok) {
      csrfToken.value = ((await response.json()) as { csrfToken: string }).csrfToken;
      return;
    }
    const problem = await problemOf(response);
    if (problem.status === 401) localStorage.removeItem(HAS_SESSION);
    ended.value = problem;
  } catch {
    // Without storage or an answer, the visitor signs in again.
  }
}

/** Why the last session ended, if not by the visitor. */
export const ended = signal<Problem | null>(null);

export function signIn(value: string): void {
  ended.value = null;
  key.value = value;
  try {
    sessionStorage.setItem(STORED_AS, value);
  } catch {
    // Storage may be forbidden: then the session lasts until the page is left.
  }
}

export function signOut(why: Problem | null = null): void {
  const token = csrfToken.peek();
  if (token !== null && why === null) {
    // The cookie is removed by the answer; the session has ended even where none comes.
    const headers = { 'x-csrf-token': token };
    void fetch(SESSION, { method: 'DELETE', headers, credentials: 'same-origin', keepalive: true }).catch(() => {});
  }
  key.value = null;
  csrfToken.value = null;
  ended.value = why;
  try {
    sessionStorage.removeItem(STORED_AS);
    localStorage.removeItem(HAS_SESSION);
  } catch {
    // Nothing is stored where storage is forbidden.
  }
}

function stored(): string | null {
  try {
    return sessionStorage.getItem(STORED_AS);
  } catch {
    return null;
  }
}
