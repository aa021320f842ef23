// What a new API key is called, may do, and for how long.

import { useState } from 'preact/hooks';
import { useAsk } from '../ask';
import { useAction } from './Action';
import { ActionForm } from './ActionForm';
import type { Domains, NewKey, Scope } from './answers';
import { get, send } from './api';
import { Select } from './Select';

export const SCOPES: Record<Scope, string> = {
  read: 'read numbers and entries',
  write: 'change entries and domains',
  erase: 'erase',
};

const LIVES = [
  ['30d', '30 days'],
  ['90d', '90 days'],
  ['1y', 'a year'],
  ['3y', 'three years'],
] as const;

export function KeyForm({ onMade }: { onMade: (name: string) => (key: NewKey) => void }) {
  const [name, setName] = useState('');
  const [scope, setScope] = useState<Scope[]>(['read']);
  const [life, setLife] = useState<(typeof LIVES)[number][0]>('1y');
  const [only, setOnly] = useState<string[]>([]);
  const asked = useAsk('domains', (signal) => get<Domains>('/api/v1/verification/status', signal));
  const own = asked.data?.domains.filter((one) => one.status === 'verified').map((one) => one.domain) ?? [];
  const action = useAction(async () => {
    const limit = only.length > 0 && { domains: only };
    const body = { name: name.trim(), scope, expiresIn: life, ...limit };
    onMade(body.name)(await send<NewKey>('POST', '/api/v1/auth/keys', body));
    setName('');
  });
  const toggled = <T,>(all: T[], one: T) => (all.includes(one) ? all.filter((other) => other !== one) : [...all, one]);
  return (
    <ActionForm action={action} submit="Make the key" disabled={scope.length === 0}>
      <label class="pick wide-field">
        <span>Name</span>
        <input
          type="text"
          required
          maxLength={100}
          placeholder="What uses it, such as: weekly report"
          autocomplete="off"
          value={name}
          onInput={(event) => setName(event.currentTarget.value)}
        />
      </label>
      <Select name="Works for" value={life} options={LIVES} onSelect={setLife} />
      <fieldset>
        <legend>May</legend>
        {(Object.keys(SCOPES) as Scope[]).map((one) => (
          <label key={one} class="tick">
            <input type="checkbox" checked={scope.includes(one)} onChange={() => setScope(toggled(scope, one))} />
            {SCOPES[one]}
          </label>
        ))}
      </fieldset>
      {own.length > 1 && (
        <fieldset>
          <legend>Only for these domains (none chosen: all, later ones included)</legend>
          {own.map((one) => (
            <label key={one} class="tick">
              <input type="checkbox" checked={only.includes(one)} onChange={() => setOnly(toggled(only, one))} />
              {one}
            </label>
          ))}
        </fieldset>
      )}
    </ActionForm>
  );
}
