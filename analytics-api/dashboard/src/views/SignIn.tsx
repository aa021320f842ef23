// Requests the API key and tries it before it is stored.

import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { explain, Problem, problemOf } from '../api/problem';
import { refresh } from '../ask';
import { heardFromServer, serverNow } from '../clock';
import { ended, signIn } from '../session';

/** The cheapest question that needs what the page needs: the right to read. */
const TRIAL = '/api/v1/analytics/purposes';
const TRIAL_MS = 3_600_000;

export function SignIn() {
  const field = useRef<HTMLInputElement>(null);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(ended.value);
  useLayoutEffect(() => field.current?.focus(), []);

  async function submit(event: Event) {
    event.preventDefault();
    const value = field.current?.value.trim() ?? '';
    if (busy) return;
    setBusy(true);
    setProblem(null);
    const found = await tryKey(value);
    setBusy(false);
    if (found === null) {
      // Before the panels are there: each would ask a second time.
      refresh();
      return signIn(value);
    }
    setProblem(found);
    field.current?.select();
    field.current?.focus();
  }

  const words = problem && explain(problem, { retried: false });
  return (
    <main class="sign-in" id="main">
      <div class="slip">
        <h1>Receipts</h1>
        <p class="lead">Who used your content, and for what.</p>
        <form method="post" action="/dashboard" onSubmit={submit}>
          <label for="key">API key</label>
          <input
            id="key"
            ref={field}
            type="password"
            autocomplete="off"
            autocapitalize="off"
            spellcheck={false}
            required
            aria-invalid={problem !== null}
            aria-describedby="key-note key-problem"
          />
          <button type="submit" class="primary" disabled={busy}>
            {busy ? 'Trying the key…' : 'Sign in'}
          </button>
          <div id="key-problem" role="alert">
            {words && (
              <p class="failed">
                <strong>{words.title}.</strong> {words.advice}
              </p>
            )}
          </div>
          <p id="key-note" class="note">
            The key needs the scope “read”. It stays in this tab until you sign out or close it.
          </p>
        </form>
        <p class="note">
          Without a key: <a href="/api/v1/auth/login">sign in with your account</a>.
        </p>
      </div>
    </main>
  );
}

async function tryKey(value: string): Promise<Problem | null> {
  // A header takes no more than this, and a key has nothing else in it.
  if (!/^[\x21-\x7e]{1,512}$/.test(value)) return new Problem(401, 'invalid_api_key', '');
  try {
    const headers = { authorization: `Bearer ${value}`, accept: 'application/json' };
    const from = new Date(serverNow() - TRIAL_MS).toISOString();
    const response = await fetch(`${TRIAL}?from=${from}`, { headers, credentials: 'omit', redirect: 'error' });
    heardFromServer(response.headers.get('date'));
    if (response.ok) return null;
    const problem = await problemOf(response);
    // Whether the key holds is known before numbers are requested: the page tells what is missing,
    // panel by panel.
    return problem.status === 503 && problem.code !== 'accounts_unavailable' ? null : problem;
  } catch {
    return new Problem(0, 'unreachable', '');
  }
}
