import { useEffect, useRef } from 'preact/hooks';
import { asOf, refresh } from './ask';
import { ConsoleLoader } from './ConsoleLoader';
import { serverNow } from './clock';
import { dateTime } from './format';
import { consolePath, linkTo, pageLocation, viewPath } from './location';
import { Controls } from './panels/Controls';
import { chosen } from './panels/chosen';
import { Warning, Watermark } from './panels/Watermark';
import { person, signedIn, signOut } from './session';
import { theme, toggleTheme } from './theme';
import { ClientView, EntryView, Nothing } from './views/Detail';
import { ListPanel, Lists } from './views/Lists';
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
  const viewKey = viewPath(view);
  const page = view.name === 'list' ? view.page?.cursor : null;
  const first = useRef(true);

  useEffect(() => {
    // Another view, or page of a list, begins at its heading, for eyes and for screen readers.
    // Whoever types or chooses stays where they are.
    if (first.current) first.current = false;
    else if (!document.activeElement?.matches('input, select')) {
      main.current?.querySelector<HTMLElement>('h1')?.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
  }, [viewKey, page]);

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
        <Lists />
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
        {view.name === 'content' && <EntryView of={view} chosen={now} />}
        {view.name === 'service' && <ClientView of={view} chosen={now} />}
        {view.name === 'list' && <ListPanel of={view} chosen={now} />}
        {view.name === 'unknown' && <Nothing kind="Address" title="There is no such page" />}
      </main>
      <footer>
        <p>
          Each use is counted once, at the time of access that the AI service states, after its signature was checked.{' '}
          <a href="/docs/analytics/">The same numbers by API</a>
        </p>
      </footer>
    </>
  );
}
