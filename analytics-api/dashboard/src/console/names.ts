// Names of those who do things in an account: people, and API keys.

import { useAsk } from '../ask';
import { type Person, person } from '../session';
import type { Keys, Members } from './answers';
import { get } from './api';

/** The person's name, or what there is instead. */
export const nameOf = (who: Pick<Person, 'name' | 'email'>): string => who.name ?? who.email ?? 'Signed in';

export type Names = ReadonlyMap<string, string>;

/** The names of the account's people and keys by their actors, as far as there are any. */
async function names(signal: AbortSignal): Promise<Names> {
  const [people, keys] = await Promise.allSettled([
    get<Members>('/api/v1/auth/members', signal),
    get<Keys>('/api/v1/auth/keys?limit=100', signal),
  ]);
  const found = new Map<string, string>();
  if (people.status === 'fulfilled') {
    for (const member of people.value.members) {
      const name = member.name ?? member.email;
      if (name) found.set(`user:${member.userId}`, name);
    }
  }
  if (keys.status === 'fulfilled') for (const key of keys.value.keys) found.set(`key:${key.keyId}`, key.name);
  return found;
}

export function useNames(): Names {
  return useAsk('names', names).data ?? new Map();
}

/** An actor of the trail, for people. */
export function actorName(actor: string, names: Names): string {
  const [kind, id = ''] = actor.split(':', 2);
  if (kind === 'user' && id === person.value?.userId) return `You${names.has(actor) ? ` (${names.get(actor)})` : ''}`;
  const name = names.get(actor);
  if (kind === 'key') return name ? `API key “${name}”` : `API key ${id}`;
  if (kind === 'user') return name ?? `A member (${id.slice(-6)})`;
  if (actor === 'operator') return 'Whoever runs this service';
  return actor === 'service' ? 'The service' : actor;
}
