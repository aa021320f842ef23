// Pages of a list with cursors.

import { useState } from 'preact/hooks';

export interface PageTurner {
  cursor: string | undefined;
  number: number;
  next: (cursor: string) => void;
  back: () => void;
}

/** Begins again when `of` (the selection, as text) changes. */
export function usePages(of = ''): PageTurner {
  const [state, setState] = useState<{ of: string; cursors: string[] }>({ of, cursors: [] });
  const cursors = state.of === of ? state.cursors : [];
  return {
    cursor: cursors.at(-1),
    number: cursors.length + 1,
    next: (cursor) => setState({ of, cursors: [...cursors, cursor] }),
    back: () => setState({ of, cursors: cursors.slice(0, -1) }),
  };
}

export function Pages({ pages, next, of }: { pages: PageTurner; next: string | null; of: string }) {
  if (pages.number === 1 && next === null) return null;
  return (
    <nav class="row more" aria-label={`Pages: ${of}`}>
      <button type="button" class="quiet" disabled={pages.number === 1} onClick={pages.back}>
        Previous page
      </button>
      <span class="note" role="status">
        Page {pages.number}
      </span>
      <button type="button" class="quiet" disabled={next === null} onClick={() => next !== null && pages.next(next)}>
        Next page
      </button>
    </nav>
  );
}
