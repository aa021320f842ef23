// A file of content: what it has, what is refused and why, then sending.

import { useState } from 'preact/hooks';
import { refresh, useAsk } from '../ask';
import { count, plural } from '../format';
import { Failed } from '../panels/Panel';
import { Outcome, useAction } from './Action';
import type { Bulk, Domains } from './answers';
import { get, send } from './api';
import { type ContentFile, FILE_BYTES_MAX, FileFault, type RefusedLine, readContent } from './contentFile';

/** Lines of one request; the service takes more. */
const CHUNK_LINES = 2_000;
/** Refused lines that are shown. */
const SHOWN_MAX = 50;

interface Sent {
  created: number;
  unchanged: number;
  refused: RefusedLine[];
  done: number;
}

export function Upload() {
  const asked = useAsk('domains', (signal) => get<Domains>('/api/v1/verification/status', signal));
  const own = asked.data?.domains.filter((one) => one.status === 'verified') ?? [];
  const [pasted, setPasted] = useState('');
  const [content, setContent] = useState<ContentFile | string | null>(null);
  const [sent, setSent] = useState<Sent | null>(null);
  const read = (text: string) => {
    setSent(null);
    try {
      setContent(readContent(text, own));
    } catch (error) {
      if (!(error instanceof FileFault)) throw error;
      setContent(error.message);
    }
  };
  const action = useAction(async (content: ContentFile) => {
    const sum: Sent = { created: 0, unchanged: 0, refused: [], done: 0 };
    // What was sent before a failure stays; sending it again finds it unchanged.
    for (let from = 0; from < content.entries.length; from += CHUNK_LINES) {
      const chunk = content.entries.slice(from, from + CHUNK_LINES);
      const body = chunk.map(({ line: _, ...entry }) => JSON.stringify(entry)).join('\n');
      const bulk = await send<Bulk>('POST', '/api/v1/publisher/entries', body);
      sum.created += bulk.created;
      sum.unchanged += bulk.unchanged;
      for (const { line, status, detail } of bulk.lines) {
        const entry = chunk[line - 1];
        if (status === 'refused' && entry) sum.refused.push({ line: entry.line, text: entry.url, why: detail ?? '' });
      }
      sum.done = from + chunk.length;
      setSent({ ...sum });
    }
    setContent(null);
    setPasted('');
    refresh();
  });
  // What a file has is checked against the domains.
  if (!asked.data)
    return asked.problem ? (
      <Failed problem={asked.problem} retry={asked.retry} of="Add content" />
    ) : (
      <div aria-busy="true" />
    );
  if (own.length === 0) {
    return (
      <p class="empty">
        First <a href="#/settings/domains">show that a domain is yours</a>: content is listed on your domains.
      </p>
    );
  }
  return (
    <div class="upload">
      <p class="soft">
        A sitemap, a CSV with a column <code>url</code> (and <code>title</code>, <code>authors</code>), or lines of
        JSON. Without a title, the address is shown.
      </p>
      <div class="fields">
        <label class="pick">
          <span>File</span>
          <input
            type="file"
            accept=".csv,.tsv,.txt,.xml,.ndjson,.jsonl,.json"
            disabled={asked.data === null || action.busy}
            onChange={async (event) => {
              const [file] = event.currentTarget.files ?? [];
              event.currentTarget.value = '';
              if (!file) return;
              if (file.size > FILE_BYTES_MAX) setContent('The file is larger than 16 MB: split it.');
              else read(await file.text());
            }}
          />
        </label>
        <label class="pick wide-field">
          <span>Or paste addresses, one a line</span>
          <textarea
            rows={2}
            maxLength={FILE_BYTES_MAX}
            spellcheck={false}
            value={pasted}
            onInput={(event) => setPasted(event.currentTarget.value)}
          />
        </label>
        <button type="button" disabled={pasted.trim() === '' || asked.data === null} onClick={() => read(pasted)}>
          Look at them
        </button>
      </div>
      {typeof content === 'string' && (
        <p class="failed" role="alert">
          <span>
            <strong>That can’t be read.</strong> {content}
          </span>
        </p>
      )}
      {content !== null && typeof content === 'object' && (
        <div class="prompt" role="status">
          <p>
            <strong>
              {plural(content.entries.length, 'entry', 'entries')} can be listed
              {content.refused.length > 0 && `, ${plural(content.refused.length, 'line')} can’t`}.
            </strong>{' '}
            Nothing has been sent yet.
          </p>
          <RefusedLines refused={content.refused} />
          <p class="row">
            {content.entries.length > 0 && (
              <button type="button" class="primary" disabled={action.busy} onClick={() => void action.run(content)}>
                {action.busy
                  ? `Sent ${count(sent?.done ?? 0)} of ${count(content.entries.length)}…`
                  : `List ${plural(content.entries.length, 'entry', 'entries')}`}
              </button>
            )}
            <button type="button" disabled={action.busy} onClick={() => setContent(null)}>
              Don’t
            </button>
          </p>
        </div>
      )}
      {sent && content === null && (
        <div class="prompt done" role="status">
          <p>
            <strong>{plural(sent.created, 'entry', 'entries')} listed.</strong>{' '}
            {sent.unchanged > 0 && `${count(sent.unchanged)} were there already. `}
            {sent.refused.length > 0 && `${plural(sent.refused.length, 'line')} weren’t taken.`}
          </p>
          <RefusedLines refused={sent.refused} />
        </div>
      )}
      <Outcome of={action} />
    </div>
  );
}

function RefusedLines({ refused }: { refused: RefusedLine[] }) {
  if (refused.length === 0) return null;
  return (
    <>
      <table class="refused-lines">
        <caption class="unseen">Lines that can’t be listed</caption>
        <thead>
          <tr>
            <th scope="col">Line</th>
            <th scope="col">Why</th>
            <th scope="col">What it has</th>
          </tr>
        </thead>
        <tbody>
          {refused.slice(0, SHOWN_MAX).map((one) => (
            <tr key={one.line}>
              <td>{count(one.line)}</td>
              <td>{one.why}</td>
              <td class="code">{one.text.slice(0, 160)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {refused.length > SHOWN_MAX && <p class="note">And {count(refused.length - SHOWN_MAX)} more.</p>}
    </>
  );
}
