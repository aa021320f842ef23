// Puts an entry of the catalogue right.

import { useState } from 'preact/hooks';
import { refresh } from '../ask';
import { useAction } from './Action';
import type { Entry } from './answers';
import { send } from './api';
import { Confirm } from './Confirm';

const TITLE_CHARS_MAX = 1000;
const URL_BYTES_MAX = 2048;

/** An entry's fields as they are typed: the authors one a line. */
interface Draft {
  title: string;
  url: string;
  authors: string;
}

const draftOf = ({ title, url, authors }: Entry): Draft => ({ title, url, authors: authors.join('\n') });

const lines = (text: string): string[] =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');

export function EditEntry({ entry, path }: { entry: Entry; path: string }) {
  const [draft, setDraft] = useState(() => draftOf(entry));
  const change = (part: Partial<Draft>) => setDraft({ ...draft, ...part });
  const save = useAction(async () => {
    const { title, url, authors } = draftOf(entry);
    // Only what was changed here, so that what others changed meanwhile stays.
    await send('PATCH', path, {
      ...(draft.title !== title && { title: draft.title.trim() }),
      ...(draft.url !== url && { url: draft.url.trim() }),
      ...(draft.authors !== authors && { authors: lines(draft.authors) }),
    });
    refresh();
  });
  return (
    <Confirm label="Edit" of={entry.title} yes="Save it" action={save} onOpen={() => setDraft(draftOf(entry))}>
      <div class="fields">
        <label class="pick wide-field">
          <span>Title</span>
          <input
            type="text"
            required
            maxLength={TITLE_CHARS_MAX}
            value={draft.title}
            onInput={(event) => change({ title: event.currentTarget.value })}
          />
        </label>
        <label class="pick wide-field">
          <span>Address</span>
          <input
            type="url"
            required
            maxLength={URL_BYTES_MAX}
            value={draft.url}
            onInput={(event) => change({ url: event.currentTarget.value })}
          />
        </label>
        <label class="pick wide-field">
          <span>Authors, one a line</span>
          <textarea
            rows={3}
            value={draft.authors}
            onInput={(event) => change({ authors: event.currentTarget.value })}
          />
        </label>
      </div>
    </Confirm>
  );
}
