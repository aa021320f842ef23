// One question for each panel: cancelled when what is asked changes, asked again when numbers
// moved, shown meanwhile.

import { signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { asProblem, isAbort } from './api/http';
import type { Problem } from './api/problem';
import { serverNow } from './clock';
import { setLoad } from './loads';

/** As of when ranges end, for all panels alike. Moves when there is news. */
export const asOf = signal(serverNow());

/** Looks again, at everything. */
export function refresh(): void {
  asOf.value = serverNow();
}

export interface Asked<T> {
  /** The newest answer; while another selection is on its way still that of the last. */
  data: T | null;
  /** Why the last request for this selection failed. */
  problem: Problem | null;
  /** Whether what is shown belongs to an earlier selection. */
  stale: boolean;
  retry: () => void;
}

const WAIT_S_MIN = 2;
const WAIT_S_MAX = 60;

/**
 * Sends a request whenever `question` (the request, as text) or `asOf` changes. A failure that
 * passes by itself is followed by another try.
 */
export function useAsk<T>(question: string, ask: (signal: AbortSignal) => Promise<T>): Asked<T> {
  const [state, setState] = useState<{ data: T | null; of: string; problem: Problem | null; failed: string }>({
    data: null,
    of: '',
    problem: null,
    failed: '',
  });
  const [attempt, setAttempt] = useState(0);
  const failures = useRef(0);
  const load = useRef({}).current;
  useEffect(() => () => setLoad(load, null), []);
  useEffect(() => {
    if (state.failed !== question && state.of !== question) setLoad(load, 'awaited');
    const controller = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    ask(controller.signal).then(
      (data) => {
        if (controller.signal.aborted) return;
        failures.current = 0;
        setLoad(load, null);
        setState({ data, of: question, problem: null, failed: '' });
      },
      (error: unknown) => {
        if (controller.signal.aborted || isAbort(error)) return;
        const problem = asProblem(error);
        setLoad(load, problem.isQuota ? 'limited' : problem.isOutage ? 'failed' : null);
        setState((last) => ({ ...last, problem, failed: question }));
        if (!problem.passes) return;
        failures.current += 1;
        const growing = Math.min(WAIT_S_MAX, WAIT_S_MIN * 2 ** (failures.current - 1));
        timer = setTimeout(() => setAttempt((n) => n + 1), Math.max(problem.retryAfterS ?? 0, growing) * 1000);
      },
    );
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [question, asOf.value, attempt]);
  const problem = state.failed === question ? state.problem : null;
  return { data: state.data, problem, stale: state.of !== question, retry: () => setAttempt((n) => n + 1) };
}
