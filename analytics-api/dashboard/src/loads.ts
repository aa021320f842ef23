// Loads of all panels and of the stream: which are awaited, and which failed last.

import { computed, signal } from '@preact/signals';

type State = 'awaited' | 'failed' | 'limited';

const states = signal<ReadonlyMap<object, State>>(new Map());

/** Whether the numbers of a new selection are still to come. */
export const awaited = computed(() => [...states.value.values()].includes('awaited'));

/** Whether the service doesn't answer: what is shown may be older than it looks. */
export const failing = computed(() => [...states.value.values()].includes('failed'));

/** Whether the account has no requests left for a while. */
export const limited = computed(() => [...states.value.values()].includes('limited'));

/** Sets the state of the load that `of` identifies; null once it has succeeded, or isn't wanted. */
export function setLoad(of: object, state: State | null): void {
  const before = states.peek();
  if ((before.get(of) ?? null) === state) return;
  const now = new Map(before);
  if (state) now.set(of, state);
  else now.delete(of);
  states.value = now;
}
