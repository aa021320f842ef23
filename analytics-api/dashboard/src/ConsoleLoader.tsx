// Settings and first steps. Their script is loaded when somebody goes there.

import type { FunctionComponent } from 'preact';
import { useEffect, useState } from 'preact/hooks';

export function ConsoleLoader() {
  const [view, setView] = useState<{ Console: FunctionComponent } | 'failed' | null>(null);
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    import('./console/Console').then(setView, () => setView('failed'));
  }, [attempt]);
  if (view === null) return <main aria-busy="true" />;
  if (view !== 'failed') return <view.Console />;
  return (
    <main>
      <div class="failed" role="alert">
        <p>
          <strong>Settings couldn’t be loaded.</strong> Check the connection. If it is fine, reload the page.
        </p>
        <button type="button" onClick={() => setAttempt(attempt + 1)}>
          Try again
        </button>
      </div>
    </main>
  );
}
