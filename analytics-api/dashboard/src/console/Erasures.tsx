// Erasures: what is to go and when, and the way back until then.

import { useState } from 'preact/hooks';
import { refresh, useAsk } from '../ask';
import { serverNow } from '../clock';
import { count, dateTime, span, words } from '../format';
import { pageLocation } from '../location';
import { Panel } from '../panels/Panel';
import { Allowed, useAction } from './Action';
import type { Erasure, Erasures as ErasureList } from './answers';
import { get, send, withQuery } from './api';
import { Confirm } from './Confirm';
import { actorName, type Names, useNames } from './names';
import { Pages, usePages } from './Pages';
import { Select } from './Select';
import { ACTIONS, Things } from './Things';

const PATH = '/api/v1/publisher/erasures';
const PAGE = 25;

const PEOPLE = [
  ['researcherId', 'Researcher'],
  ['sessionId', 'Session'],
] as const;
/** Of a person’s identifier. */
const ID_CHARS_MAX = 4096;

const PARTS = [
  ['receiptClientMetadata', 'Who used your content: names, keys, sessions and researchers of all receipts until now'],
  ['allEntries', 'The whole catalogue'],
  ['personalData', 'Names and addresses of the account’s people, and the names of its API keys'],
] as const;

export function Erasures() {
  const pages = usePages();
  const path = withQuery(PATH, { limit: PAGE, cursor: pages.cursor });
  const asked = useAsk(path, (signal) => get<ErasureList>(path, signal));
  const names = useNames();
  return (
    <>
      <p class="lede">
        What is erased is gone. It begins some time after the request, usually a day, and can be cancelled until then.
        Uses stay counted, without who they were by.
      </p>
      <Allowed needs="owner" to="request and cancel erasures" fresh>
        <section class="panel" aria-labelledby="erase-title">
          <h2 id="erase-title">Request an erasure</h2>
          <RequestForm />
          <PersonForm />
        </section>
      </Allowed>
      <Panel id="erasures" title="Erasures" asked={asked} rows={3}>
        {({ erasures, nextCursor }) => (
          <>
            <Things headings={['What', 'State', 'Requested', ACTIONS]} empty="None was requested.">
              {erasures.map((erasure) => (
                <Row key={erasure.erasureId} erasure={erasure} names={names} />
              ))}
            </Things>
            <Pages pages={pages} next={nextCursor} of="erasures" />
          </>
        )}
      </Panel>
    </>
  );
}

function RequestForm() {
  const [chosen, setChosen] = useState<string[]>([]);
  const request = useAction(async () => {
    await send<Erasure>('POST', PATH, Object.fromEntries(chosen.map((part) => [part, true])));
    setChosen([]);
    refresh();
  });
  return (
    <div class="erase-form">
      <fieldset>
        <legend class="soft">Erase</legend>
        {PARTS.map(([part, text]) => (
          <label key={part} class="tick">
            <input
              type="checkbox"
              checked={chosen.includes(part)}
              onChange={() =>
                setChosen(chosen.includes(part) ? chosen.filter((one) => one !== part) : [...chosen, part])
              }
            />
            {text}
          </label>
        ))}
      </fieldset>
      {chosen.length > 0 ? (
        <Confirm label="Request" of="this erasure" yes="Request the erasure" action={request}>
          Everybody in the account can see it here, and the owner can cancel it until it begins.
        </Confirm>
      ) : (
        <p class="note">Choose what is to go.</p>
      )}
    </div>
  );
}

/** One researcher or session, whose identifier is only sent. */
function PersonForm() {
  const [member, setMember] = useState<(typeof PEOPLE)[number][0]>('researcherId');
  const [id, setId] = useState('');
  const request = useAction(async () => {
    await send<Erasure>('POST', PATH, { [member]: id });
    setId('');
    refresh();
  });
  return (
    <div class="erase-form">
      <fieldset class="fields">
        <legend class="soft">Or one person, in all receipts until now</legend>
        <Select name="Named as" value={member} options={PEOPLE} onSelect={setMember} />
        <label class="pick wide-field">
          <span>Identifier</span>
          <input
            type="text"
            value={id}
            maxLength={ID_CHARS_MAX}
            autocomplete="off"
            onInput={(event) => setId(event.currentTarget.value)}
          />
        </label>
      </fieldset>
      {id !== '' && (
        <Confirm label="Request" of="the erasure of this person" yes="Request the erasure" action={request}>
          What names the person goes: researcher, session, study, query, context, and the receipts’ own bytes, so they
          can’t be proven any more. The AI service and the numbers stay.
        </Confirm>
      )}
    </div>
  );
}

function Row({ erasure, names }: { erasure: Erasure; names: Names }) {
  const { tz } = pageLocation.value;
  const cancel = useAction(async () => {
    await send<Erasure>('DELETE', `${PATH}/${erasure.erasureId}`);
    refresh();
  });
  const beginsMs = Date.parse(erasure.executeAt);
  const rows = Object.entries(erasure.erased).filter(([, rows]) => rows > 0);
  return (
    <tr>
      <th scope="row" class="name">
        {words(erasure.summary)}
        <small class="code">{erasure.erasureId}</small>
      </th>
      <td>
        <span
          class={erasure.state === 'done' ? 'badge good' : erasure.state === 'cancelled' ? 'badge off' : 'badge warn'}
        >
          {words(erasure.state)}
        </span>
        {erasure.state === 'scheduled' && (
          <small>
            begins {dateTime(beginsMs, tz)}, in {span(beginsMs - serverNow())}
          </small>
        )}
        {erasure.finishedAt && <small>{dateTime(Date.parse(erasure.finishedAt), tz)}</small>}
        {rows.length > 0 && (
          <small>{rows.map(([table, erased]) => `${count(erased)} ${words(table)}`).join(', ')}</small>
        )}
        {erasure.problem && <small class="fault">{erasure.problem}</small>}
      </td>
      <td>
        {dateTime(Date.parse(erasure.requestedAt), tz)}
        <small>{actorName(erasure.requestedBy, names)}</small>
      </td>
      <td>
        {erasure.state === 'scheduled' && (
          <Allowed needs="owner" to="" quiet>
            <Confirm label="Cancel" of={erasure.summary} yes="Cancel the erasure" action={cancel}>
              Nothing has been erased yet.
            </Confirm>
          </Allowed>
        )}
      </td>
    </tr>
  );
}
