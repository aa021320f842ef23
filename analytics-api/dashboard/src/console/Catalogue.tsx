// The catalogue: the content that the account lists, with its search, and files to add.

import { useState } from 'preact/hooks';
import { refresh, useAsk } from '../ask';
import { date } from '../format';
import { linkTo, pageLocation } from '../location';
import { Panel } from '../panels/Panel';
import { Allowed, may, useAction } from './Action';
import type { Entries, Entry } from './answers';
import { get, send, withQuery } from './api';
import { Confirm } from './Confirm';
import { EditEntry } from './EditEntry';
import { Pages, usePages } from './Pages';
import { ACTIONS, Things } from './Things';
import { Upload } from './Upload';

const PATH = '/api/v1/publisher/entries';
const PAGE = 25;

export function Catalogue() {
  const [q, setQ] = useState('');
  const [typed, setTyped] = useState('');
  const pages = usePages(q);
  const path = withQuery(PATH, { q, limit: PAGE, cursor: pages.cursor });
  const asked = useAsk(path, (signal) => get<Entries>(path, signal));
  return (
    <>
      <p class="lede">What you publish, by its address and title. Uses of pages that aren’t listed count, too.</p>
      <section class="panel" aria-labelledby="upload-title">
        <h2 id="upload-title">Add content</h2>
        <Allowed needs="editor" to="list content">
          <Upload />
        </Allowed>
      </section>
      <Panel
        id="entries"
        title="Listed content"
        asked={asked}
        rows={8}
        actions={
          <search>
            <form
              class="row"
              onSubmit={(event) => {
                event.preventDefault();
                setQ(typed.trim());
              }}
            >
              <label class="pick">
                <span class="unseen">Search titles and addresses</span>
                <input
                  type="search"
                  maxLength={200}
                  placeholder="Title or address"
                  value={typed}
                  onInput={(event) => {
                    setTyped(event.currentTarget.value);
                    if (event.currentTarget.value === '') setQ('');
                  }}
                />
              </label>
              <button type="submit" class="quiet">
                Search
              </button>
            </form>
          </search>
        }
      >
        {({ entries, nextCursor }) => (
          <>
            {entries.length === 0 && <p class="empty">{q ? `Nothing has “${q}” in it.` : 'Nothing is listed yet.'}</p>}
            {entries.length > 0 && (
              <Things headings={['Title and address', 'Listed', ...(may('editor') ? [ACTIONS] : [])]}>
                {entries.map((entry) => (
                  <Row key={entry.entryId} entry={entry} />
                ))}
              </Things>
            )}
            <Pages pages={pages} next={nextCursor} of="listed content" />
          </>
        )}
      </Panel>
    </>
  );
}

function Row({ entry }: { entry: Entry }) {
  const { tz } = pageLocation.value;
  const erase = useAction(async () => {
    await send('DELETE', `${PATH}/${entry.entryId}`);
    refresh();
  });
  return (
    <tr>
      <th scope="row" class="name">
        <a href={linkTo({ view: { name: 'content', id: entry.entryId } })}>{entry.title}</a>
        {entry.title !== entry.url && <small>{entry.url.replace(/^https?:\/\//, '')}</small>}
        {entry.authors.length > 0 && <small>{entry.authors.join(', ')}</small>}
      </th>
      <td>{date(Date.parse(entry.createdAt), tz)}</td>
      {may('editor') && (
        <td>
          <div class="actions">
            <EditEntry entry={entry} path={`${PATH}/${entry.entryId}`} />
            {may('owner') && (
              <Confirm label="Remove" of={entry.title} yes="Remove it" action={erase}>
                Title and address are erased from the catalogue. Its uses stay counted.
              </Confirm>
            )}
          </div>
        </td>
      )}
    </tr>
  );
}
