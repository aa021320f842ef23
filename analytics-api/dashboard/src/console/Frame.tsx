// What is around each view of the console: the way to the numbers, who is signed in, navigation.

import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { refresh } from '../ask';
import { failing, limited } from '../loads';
import { consolePath } from '../location';
import { type Person, person, signOut } from '../session';
import { theme, toggleTheme } from '../theme';
import { Outcome, useAction } from './Action';
import { send } from './api';
import { nameOf } from './names';
import type { ConsoleView } from './views';

interface FrameProps {
  /** Those that navigation leads to. */
  views: ConsoleView[];
  current: ConsoleView | undefined;
  title: string;
  children: ComponentChildren;
}

export function Frame({ views, current, title, children }: FrameProps) {
  const path = consolePath.value;
  const main = useRef<HTMLElement>(null);
  const isFirst = useRef(true);
  useEffect(() => {
    document.title = `${title} · Receipts`;
    // Another view begins at its heading, for eyes and for screen readers.
    if (!isFirst.current) {
      main.current?.querySelector('h1')?.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
    isFirst.current = false;
    return () => {
      document.title = 'Receipts';
    };
  }, [path]);
  return (
    <>
      <button type="button" class="skip" onClick={() => main.current?.focus()}>
        Skip to the settings
      </button>
      <header class="top">
        <a class="brand" href="#/">
          Receipts
        </a>
        <nav aria-label="Receipts" class="places">
          <a href="#/">Numbers</a>
          <a href="#/settings" aria-current="true">
            Settings
          </a>
        </nav>
        <div class="tools">
          <button type="button" class="quiet" aria-pressed={theme.value === 'dark'} onClick={toggleTheme}>
            Dark
          </button>
          {person.value ? (
            <Who person={person.value} />
          ) : (
            <button type="button" class="quiet" onClick={() => signOut()}>
              Sign out
            </button>
          )}
        </div>
      </header>
      <div class="warning-slot" role="status">
        {limited.value && (
          <p class="warning">
            <span>
              <strong>Too many requests.</strong> The requests of your account are used up for now. What is grey or
              missing follows by itself.
            </span>
          </p>
        )}
        {failing.value && !limited.value && (
          <p class="warning">
            <span>
              <strong>No answer.</strong> The service doesn’t answer. What you see is from its last answer; the page
              keeps trying.
            </span>
            <button type="button" onClick={refresh}>
              Try now
            </button>
          </p>
        )}
      </div>
      <div class="console">
        <nav aria-label="Settings" class="sections">
          <ul>
            {views.map((view) => (
              <li key={view.path}>
                <a href={`#${view.path}`} aria-current={view === current ? 'page' : undefined}>
                  {view.title}
                </a>
              </li>
            ))}
          </ul>
        </nav>
        <main id="main" ref={main} tabIndex={-1} key={path}>
          <h1 tabIndex={-1}>{title}</h1>
          {children}
        </main>
      </div>
    </>
  );
}

function Who({ person: who }: { person: Person }) {
  const others = who.accounts.filter((account) => account.id !== who.accountId);
  const action = useAction(async (accountId: string) => {
    await send('PUT', '/api/v1/auth/session/account', { accountId });
    // Another account has other numbers and another token.
    location.reload();
  });
  return (
    <details class="who">
      <summary>
        <span class="cut">{nameOf(who)}</span> <small>{who.role}</small>
      </summary>
      <div class="slip">
        <dl>
          <dt>Signed in as</dt>
          <dd>{nameOf(who)}</dd>
          {who.name && who.email && <dd>{who.email}</dd>}
          <dt>Role</dt>
          <dd>{who.role}</dd>
          <dt>Account</dt>
          <dd class="code">{who.accountId ?? 'none yet'}</dd>
        </dl>
        {others.length > 0 && (
          <div class="row">
            {others.map((account) => (
              <button key={account.id} type="button" disabled={action.busy} onClick={() => void action.run(account.id)}>
                Switch to {account.name}
              </button>
            ))}
          </div>
        )}
        <Outcome of={action} />
        <button type="button" onClick={() => signOut()}>
          Sign out
        </button>
      </div>
    </details>
  );
}
