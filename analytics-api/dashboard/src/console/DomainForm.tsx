// Asks for the record that proves a domain.

import { useState } from 'preact/hooks';
import { refresh } from '../ask';
import { useAction } from './Action';
import { ActionForm } from './ActionForm';
import type { IssuedToken, Method } from './answers';
import { send } from './api';
import { DomainField } from './DomainField';
import { keepRecord } from './Proof';

const WAYS: [Method, string][] = [
  ['dns', 'DNS record'],
  ['https', 'file on the site'],
  ['meta', 'tag in the home page'],
];

export function DomainForm() {
  const [domain, setDomain] = useState('');
  const [method, setMethod] = useState<Method>('dns');
  const [isAlone, setAlone] = useState(false);
  const action = useAction(async () => {
    // People paste the address of their site.
    const name = domain
      .trim()
      .replace(/^https?:\/\//i, '')
      .replace(/\/.*$/, '');
    const only = isAlone && { includeSubdomains: false };
    const token = await send<IssuedToken>('POST', '/api/v1/verification/generate', { domain: name, method, ...only });
    keepRecord(name.toLowerCase(), token.record);
    setDomain('');
    refresh();
  });
  return (
    <ActionForm action={action} submit="Show what to publish">
      <DomainField name="Domain" maxLength={260} value={domain} onType={setDomain} />
      <fieldset>
        <legend>Show that it is yours by a</legend>
        {WAYS.map(([way, name]) => (
          <label key={way} class="tick">
            <input type="radio" name="method" checked={method === way} onChange={() => setMethod(way)} />
            {name}
          </label>
        ))}
      </fieldset>
      <label class="tick">
        <input type="checkbox" checked={isAlone} onChange={(event) => setAlone(event.currentTarget.checked)} />
        without its subdomains
      </label>
    </ActionForm>
  );
}
