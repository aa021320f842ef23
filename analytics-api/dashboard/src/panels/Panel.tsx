// What every panel has: a heading, its actions, and its own loading, failing and waiting.

import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { asProblem, isAbort } from '../api/http';
import { type Explanation, explain, type Problem } from '../api/problem';
import type { Asked } from '../ask';
import { CSV_ROWS_MAX, saveCsv } from '../csv';
import { count } from '../format';

interface Props<T> {
  id: string;
  title: string;
  /** One sentence about its numbers. */
  help?: string;
  asked: Asked<T>;
  /** Rows that the skeleton stands in for. */
  rows?: number;
  /** Address of all rows as CSV. */
  csv?: (data: T) => string;
  actions?: ComponentChildren;
  children: (data: T) => ComponentChildren;
}

export function Panel<T>({ id, title, help, asked, rows = 5, csv, actions, children }: Props<T>) {
  const { data, problem, stale, retry } = asked;
  // An outage, or a quota that is used up, is the whole page's, which warns of it once
  // (Watermark.tsx). Old numbers are dimmed, and those of another selection aren't shown.
  const isExplained = problem?.isQuota || (problem?.isOutage && data !== null && !stale);
  const shown = isExplained && stale ? null : data;
  return (
    <section
      class={`panel ${id}`}
      aria-labelledby={`${id}-title`}
      aria-busy={problem === null && (data === null || stale)}
    >
      <header>
        <h2 id={`${id}-title`}>{title}</h2>
        <div class="actions">
          {actions}
          {csv && <CsvButton address={data === null || stale ? null : csv(data)} name={title} />}
        </div>
      </header>
      {help && <p class="note help">{help}</p>}
      {problem && !isExplained && <Failed problem={problem} retry={retry} of={title} />}
      {shown !== null ? (
        <div class={stale || problem ? 'body stale' : 'body'}>{children(shown)}</div>
      ) : (
        (!problem || isExplained) && <Skeleton rows={rows} />
      )}
    </section>
  );
}

export function Failed({ problem, retry, of }: { problem: Problem; retry: () => void; of: string }) {
  const { title, advice } = explain(problem);
  return (
    <div class="failed" role="alert">
      <p>
        <strong>{title}.</strong> {advice}
      </p>
      <button type="button" onClick={retry} aria-label={`Try again: ${of}`}>
        Try again
      </button>
    </div>
  );
}

function Skeleton({ rows }: { rows: number }) {
  return (
    <div class="skeleton" aria-hidden="true">
      {Array.from({ length: rows }, (_, at) => (
        <span key={at} />
      ))}
    </div>
  );
}

/** Saves all rows; while they come, their number, and a way to stop. */
function CsvButton({ address, name }: { address: string | null; name: string }) {
  const [rows, setRows] = useState<number | null>(null);
  const [fault, setFault] = useState<Explanation | null>(null);
  const running = useRef<AbortController | null>(null);
  useEffect(() => () => running.current?.abort(), []);
  async function save(from: string) {
    running.current = new AbortController();
    const { signal } = running.current;
    setRows(0);
    setFault(null);
    try {
      const isWhole = await saveCsv(from, signal, setRows);
      if (!isWhole) setFault(CUT);
    } catch (error) {
      if (!isAbort(error)) setFault(explain(asProblem(error), { retried: false }));
    }
    setRows(null);
  }
  return (
    <>
      {rows === null ? (
        <button
          type="button"
          class="quiet"
          disabled={address === null}
          onClick={() => address && save(address)}
          aria-label={`Download CSV: ${name}`}
        >
          CSV
        </button>
      ) : (
        <button
          type="button"
          class="quiet"
          onClick={() => running.current?.abort()}
          aria-label={`Stop the download: ${name}`}
        >
          {rows === 0 ? 'Saving…' : `${count(rows)} rows…`} <span aria-hidden="true">×</span>
        </button>
      )}
      {fault && (
        <span class="fault" role="alert">
          <strong>{fault.title}.</strong> {fault.advice}
        </span>
      )}
    </>
  );
}

const CUT: Explanation = {
  title: 'Not all rows',
  advice: `The file has the first ${count(CSV_ROWS_MAX)}. Choose a shorter range for the others.`,
};
