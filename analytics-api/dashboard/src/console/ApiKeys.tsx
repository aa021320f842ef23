// API keys: who made them, what they may do, whether they are used; making, replacing, revoking.

import { useState } from 'preact/hooks';
import { refresh, useAsk } from '../ask';
import { date, dateTime } from '../format';
import { pageLocation } from '../location';
import { Panel } from '../panels/Panel';
import { Allowed, useAction } from './Action';
import type { Key, Keys, NewKey } from './answers';
import { get, send, withQuery } from './api';
import { Confirm } from './Confirm';
import { KeyForm, SCOPES } from './KeyForm';
import { actorName, type Names, useNames } from './names';
import { Pages, usePages } from './Pages';
import { Select } from './Select';
import { ShownOnce } from './ShownOnce';
import { ACTIONS, Things } from './Things';

const PATH = '/api/v1/auth/keys';
const PAGE = 25;

const OVERLAPS = [
  ['0h', 'at once'],
  ['1d', 'a day from now'],
  ['7d', 'a week from now'],
  ['30d', '30 days from now'],
] as const;

export function ApiKeys() {
  const pages = usePages();
  const path = withQuery(PATH, { limit: PAGE, cursor: pages.cursor });
  const asked = useAsk(path, (signal) => get<Keys>(path, signal));
  const names = useNames();
  const [made, setMade] = useState<{ name: string; key: NewKey } | null>(null);
  const shown = (name: string) => (key: NewKey) => {
    setMade({ name, key });
    refresh();
  };
  return (
    <>
      <p class="lede">For programs: each key acts for your account. A key is shown once, when it is made.</p>
      {made && (
        <ShownOnce
          key={made.key.keyId}
          label={`API key “${made.name}”`}
          secret={made.key.apiKey}
          done="I have stored it"
          onDone={() => setMade(null)}
        >
          <strong>“{made.name}” is made.</strong> Copy the key now: it isn’t shown again, and nobody can look it up.
        </ShownOnce>
      )}
      <Allowed needs="owner" to="make, replace and revoke API keys" fresh>
        <section class="panel" aria-labelledby="make-title">
          <h2 id="make-title">Make a key</h2>
          <KeyForm onMade={shown} />
        </section>
      </Allowed>
      <Panel id="keys" title="Keys" asked={asked} rows={4}>
        {({ keys, nextCursor }) => (
          <>
            {keys.length === 0 && <p class="empty">No keys yet.</p>}
            {keys.length > 0 && <KeyTable keys={keys} names={names} onMade={shown} />}
            <Pages pages={pages} next={nextCursor} of="keys" />
          </>
        )}
      </Panel>
    </>
  );
}

interface TableProps {
  keys: Key[];
  names: Names;
  onMade: (name: string) => (key: NewKey) => void;
}

function KeyTable({ keys, names, onMade }: TableProps) {
  return (
    <div class="scroller">
      <Things headings={['Name', 'May', 'Last used', 'Until', ACTIONS]}>
        {keys.map((key) => (
          <Row key={key.keyId} of={key} names={names} onMade={onMade(key.name)} />
        ))}
      </Things>
    </div>
  );
}

function Row({ of: key, names, onMade }: { of: Key; names: Names; onMade: (key: NewKey) => void }) {
  const { tz } = pageLocation.value;
  return (
    <tr>
      <th scope="row" class="name">
        {key.name}
        <small class="code">{key.keyId}</small>
        <small>
          made by {actorName(key.createdBy, names)}, {date(Date.parse(key.createdAt), tz)}
        </small>
      </th>
      <td>
        {key.scope.map((scope) => SCOPES[scope]).join(', ')}
        <small>{key.domains ? `only ${key.domains.join(', ')}` : 'for all domains'}</small>
      </td>
      <td data-label="Last used: ">
        {/* It is recorded to the hour. */}
        {key.lastUsedAt ? date(Date.parse(key.lastUsedAt), tz) : <span class="soft">never</span>}
      </td>
      <td data-label="Until: ">
        <State of={key} />
      </td>
      <td>{key.status === 'active' && <Actions of={key} onMade={onMade} />}</td>
    </tr>
  );
}

function State({ of: key }: { of: Key }) {
  const { tz } = pageLocation.value;
  const until = dateTime(Date.parse(key.expiresAt), tz);
  if (key.status === 'revoked') return <span class="badge off">Revoked</span>;
  if (key.status === 'expired') return <span class="badge off">Ended</span>;
  return (
    <>
      {until}
      {key.replacedBy && <small>replaced by {key.replacedBy}</small>}
    </>
  );
}

function Actions({ of: key, onMade }: { of: Key; onMade: (key: NewKey) => void }) {
  const [overlap, setOverlap] = useState<(typeof OVERLAPS)[number][0]>('1d');
  const revoke = useAction(async () => {
    await send('DELETE', `${PATH}/${key.keyId}`);
    refresh();
  });
  const rotate = useAction(async () => onMade(await send<NewKey>('POST', `${PATH}/${key.keyId}/rotate`, { overlap })));
  return (
    <Allowed needs="owner" to="" quiet>
      <div class="actions">
        {key.replacedBy === null && (
          <Confirm label="Replace" of={key.name} yes="Make the new key" action={rotate}>
            <Select
              name="A new key that may do the same. This one ends"
              value={overlap}
              options={OVERLAPS}
              onSelect={setOverlap}
            />
          </Confirm>
        )}
        <Confirm label="Revoke" of={key.name} yes="Revoke it" action={revoke}>
          Programs that use it are refused within seconds. It can’t be taken back.
        </Confirm>
      </div>
    </Allowed>
  );
}
