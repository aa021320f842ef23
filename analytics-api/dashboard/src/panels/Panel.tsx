// What every panel has: a heading, its actions, and its own loading, failing and waiting.

import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { asProblem } from '../api/http';
import { explain, type Problem } from '../api/problem';
import type { Asked } from '../ask';
import { saveCsv } from '../csv';
import { count } from '../format';
import { pageLocation } from '../location';

interface CsvRows {
  max: number;
  all: number;
}

interface Props<T> {
  id: string;
  title: string;
  asked: Asked<T>;
  /** Rows that the skeleton stands in for. */
  rows?: number;
  /** Where the panel's table is to be had as CSV. */
  csv?: string;
  /** Rows that this CSV has at most, and how many there are. */
  csvRows?: (data: T) => CsvRows;
  actions?: ComponentChildren;
  children: (data: T) => ComponentChildren;
}

export function Panel<T>({ id, title, asked, rows = 5, csv, csvRows, actions, children }: Props<T>) {
  const { data, problem, stale, retry } = asked;
  // An outage is the whole page's, which warns of it once (Watermark.tsx); old numbers are dimmed.
  const isExplained = problem?.isOutage && data !== null && !stale;
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
          {csv && <CsvButton address={csv} name={title} rows={(data && csvRows?.(data)) ?? null} />}
        </div>
      </header>
      {problem && !isExplained && <Failed problem={problem} retry={retry} of={title} />}
      {data !== null ? (
        <div class={stale || problem ? 'body stale' : 'body'}>{children(data)}</div>
      ) : (
        !problem && <Skeleton rows={rows} />
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

function CsvButton({ address, name, rows }: { address: string; name: string; rows: CsvRows | null }) {
  const [state, setState] = useState<{ busy: boolean; problem: Problem | null }>({ busy: false, problem: null });
  async function save() {
    setState({ busy: true, problem: null });
    try {
      await saveCsv(address, fileName(name));
      setState({ busy: false, problem: null });
    } catch (error) {
      setState({ busy: false, problem: asProblem(error) });
    }
  }
  const words = state.problem && explain(state.problem, { retried: false });
  const isCut = rows !== null && rows.all > rows.max;
  const text = isCut ? `CSV, first ${count(rows.max)}` : 'CSV';
  return (
    <>
      <button
        type="button"
        class="quiet"
        disabled={state.busy}
        onClick={save}
        aria-label={`Download ${text}${isCut ? ` of ${count(rows.all)}` : ''}: ${name}`}
      >
        {text}
      </button>
      {words && (
        <span class="fault" role="alert">
          <strong>{words.title}.</strong> {words.advice}
        </span>
      )}
    </>
  );
}

/** `receipts-top-content-2026-11-21`. */
function fileName(title: string): string {
  const view = pageLocation.value.view;
  const about = 'id' in view ? `-${view.id.slice(0, 8)}` : '';
  return `receipts-${title.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')}${about}-${new Date().toISOString().slice(0, 10)}`;
}
