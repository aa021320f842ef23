import { useEffect, useRef } from 'preact/hooks';
import { asOf, refresh } from './ask';
import { ConsoleLoader } from './ConsoleLoader';
import { serverNow } from './clock';
import { dateTime } from './format';
import { consolePath, linkTo, pageLocation } from './location';
import { Controls } from './panels/Controls';
import { chosen } from './panels/chosen';
import { Warning, Watermark } from './panels/Watermark';
import { person, signedIn, signOut } from './session';
import { theme, toggleTheme } from './theme';
import { ClientView, EntryView, Nothing } from './views/Detail';
import { Overview } from './views/Overview';
import { SignIn } from './views/SignIn';
import { forgetWatermark } from './watermark';

export function App() {
  if (!signedIn.value) return <SignIn />;
  return consolePath.value === null ? <Dashboard /> : <ConsoleLoader />;
}

/** After so long out of sight the numbers are old enough to ask again. */
const AWAY_MS = 60_000;

function Dashboard() {
  const where = pageLocation.value;
  const now = chosen(where);
  const { view } = where;
  const main = useRef<HTMLElement>(null);
  const viewKey = JSON.stringify(view);
  const first = useRef(true);

  useEffect(() => {
    // Another view begins at its heading, for eyes and for screen readers.
    if (first.current) first.current = false;
    else {
      main.current?.querySelector<HTMLElement>('h1')?.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
  }, [viewKey]);

  useEffect(() => {
    const back = () => {
      if (document.visibilityState === 'visible' && serverNow() - asOf.peek() > AWAY_MS) refresh();
    };
    document.addEventListener('visibilitychange', back);
    return () => {
      document.removeEventListener('visibilitychange', back);
      forgetWatermark();
    };
  }, []);

  const dark = theme.value === 'dark';
  return (
    <>
      <button type="button" class="skip" onClick={() => main.current?.focus()}>
        Skip to the numbers
      </button>
      <header class="top">
        <a class="brand" href={linkTo({ view: { name: 'overview' } })}>
          Receipts
        </a>
        <Watermark />
        <div class="tools">
          <button
            type="button"
            class="quiet"
            onClick={refresh}
            title={`Numbers as of ${dateTime(asOf.value, where.tz)}`}
          >
            Refresh
          </button>
          <button type="button" class="quiet" aria-pressed={dark} onClick={toggleTheme}>
            Dark
          </button>
          {person.value && (
            <a class="quiet" href="#/settings">
              Settings
            </a>
          )}
          <button type="button" class="quiet" onClick={() => signOut()}>
            Sign out
          </button>
        </div>
      </header>
      <Warning />
      <Controls chosen={now} />
      <main id="main" ref={main} tabIndex={-1} key={viewKey}>
        {view.name === 'overview' && (
          <>
            <h1 class="unseen" tabIndex={-1}>
              Overview
            </h1>
            <Overview chosen={now} />
          </>
        )}
        {view.name === 'content' && <EntryView id={view.id} chosen={now} />}
        {view.name === 'unknown' && <Nothing kind="Address" title="There is no such page" />}
        {view.name === 'client' && <ClientView of={view} chosen={now} />}
      </main>
      <footer>
        <p>Receipts count at the time of access they state. Every signature was checked once.</p>
      </footer>
    </>
  );
}
