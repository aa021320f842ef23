// The API key: in the tab's session storage while signed in, in a header of each request, and
// nowhere else.

import { signal } from '@preact/signals';
import type { Problem } from './api/problem';

const STORED_AS = 'receipts.key';

export const key = signal<string | null>(stored());

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
  key.value = null;
  ended.value = why;
  try {
    sessionStorage.removeItem(STORED_AS);
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
