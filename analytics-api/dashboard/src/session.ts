// The API key: in the tab's session storage while signed in, in a header of each request, and
// nowhere else. Or a person's session, whose cookie no script can read: the page has its token for
// requests that change something.

import { computed, signal } from '@preact/signals';
import { type Problem, problemOf } from './api/problem';

const STORED_AS = 'receipts.key';
const SESSION = '/api/v1/auth/session';
/** Remembers that there may be a session: a page without one asks for none. */
const HAS_SESSION = 'receipts.session';
/** Where a person was who has to sign in again. */
const WAY_BACK = 'receipts.back';

export const key = signal<string | null>(stored());

/** A person's session, as the API answers it. */
export interface Person {
  userId: string;
  email: string | null;
  name: string | null;
  role: 'owner' | 'editor' | 'reader';
  /** None until the person has made something, or was invited. */
  accountId: string | null;
  /** All that the person is in. */
  accounts: { id: string; name: string; tier: string; deletion: { erasedAfter: string } | null }[];
  signedInAt: string;
  csrfToken: string;
}

export const person = signal<Person | null>(null);
const csrfToken = computed(() => person.value?.csrfToken ?? null);

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
    const isNew = url.searchParams.has('session');
    if (isNew) {
      url.searchParams.delete('session');
      url.hash = sessionStorage.getItem(WAY_BACK) ?? url.hash;
      history.replaceState(null, '', url);
      // The address was read before.
      dispatchEvent(new HashChangeEvent('hashchange'));
      localStorage.setItem(HAS_SESSION, 'yes');
    }
    if (key.peek() !== null || localStorage.getItem(HAS_SESSION) === null) return;
    await readSession();
    if (isNew && person.peek() !== null && url.hash === '') await beginWithSetup();
  } catch {
    // Without storage or an answer, the visitor signs in again.
  }
}

/** Reads the session of the browser's cookie, which a sign-in in another tab may have changed. */
export async function readSession(): Promise<void> {
  const response = await fetch(SESSION, { credentials: 'same-origin', redirect: 'error', cache: 'no-store' });
  if (response.ok) {
    person.value = (await response.json()) as Person;
    sessionStorage.removeItem(WAY_BACK);
    return;
  }
  const problem = await problemOf(response);
  if (problem.status === 401) signOut(problem);
  else ended.value = problem;
  throw problem;
}

/** Leads a person whose account has no domain, and so no numbers, to the first steps. */
async function beginWithSetup(): Promise<void> {
  const status = await fetch('/api/v1/verification/status', { credentials: 'same-origin', redirect: 'error' });
  if (!status.ok) return;
  const { domains } = (await status.json()) as { domains: { status: string }[] };
  if (!domains.some((domain) => domain.status === 'verified')) location.hash = '#/welcome';
}

/** Remembers where the person is, for the way back from a sign-in in this tab. */
export function rememberPlace(): void {
  try {
    sessionStorage.setItem(WAY_BACK, location.hash);
  } catch {
    // Storage may be forbidden: then the way back begins at the numbers.
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
  if (why !== null && key.peek() === null) rememberPlace();
  key.value = null;
  person.value = null;
  ended.value = why;
  try {
    sessionStorage.removeItem(STORED_AS);
    if (why === null) sessionStorage.removeItem(WAY_BACK);
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
