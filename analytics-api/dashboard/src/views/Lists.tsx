// A list with all its rows: search, order, pages.

import { useEffect, useRef, useState } from 'preact/hooks';
import { useAsk } from '../ask';
import { count } from '../format';
import {
  type Detail,
  type List,
  type ListPage,
  type ListView,
  linkTo,
  listView,
  pageLocation,
  replace,
  SEARCH_CHARS_MAX,
} from '../location';
import type { Chosen } from '../panels/chosen';
import { csvOf, filterBy, LISTED, type ListAnswer } from '../panels/listed';
import { NOTHING } from '../panels/lists';
import { Panel } from '../panels/Panel';
import { Ranking } from '../panels/Ranking';

const ROWS = 50;
/** So long after the last letter the search begins. */
const PAUSE_MS = 300;
const LISTS: List[] = ['content', 'services', 'models', 'operators'];

/** Links to the lists, and to the overview. */
export function Lists() {
  const { view } = pageLocation.value;
  const now = view.name === 'list' && view.of === null ? view.list : view.name;
  const link = (name: string, title: string, href: string) => (
    <a key={name} href={href} aria-current={now === name ? 'page' : undefined}>
      {title}
    </a>
  );
  return (
    <nav class="lists" aria-label="Views">
      {link('overview', 'Overview', linkTo({ view: { name: 'overview' } }))}
      {LISTS.map((list) => link(list, LISTED[list].title, linkTo({ view: listView(list) })))}
    </nav>
  );
}

export function ListPanel({ of: view, chosen }: { of: ListView; chosen: Chosen }) {
  const listed = LISTED[view.list];
  const [title, back] = titleOf(view.list, view.of);
  useEffect(() => {
    document.title = `${title} · Receipts`;
    return () => {
      document.title = 'Receipts';
    };
  }, [title]);
  const search = view.search.trim();
  const filter = { ...chosen.query, ...filterBy(view.of), ...(search && { q: search }) };
  const query = { ...filter, sort: view.sort, limit: ROWS, ...(view.page && { cursor: view.page.cursor }) };
  const asked = useAsk(JSON.stringify(query), async (signal) => {
    // Until the next answer, the rows on show are those of this view.
    return { ...(await listed.ask(query, chosen.location.tz, signal)), view };
  });
  return (
    <>
      <div class="title">
        {view.of && (
          <p class="back">
            <a href={linkTo({ view: view.of })}>
              <span aria-hidden="true">←</span> {back}
            </a>
          </p>
        )}
        <h1 tabIndex={-1}>{title}</h1>
        <p class="soft">{listed.help}</p>
      </div>
      <Panel
        id="listed"
        title={title}
        asked={asked}
        rows={12}
        csv={({ total }) => csvOf(listed, filter, total, view.sort)}
        actions={<Search view={view} noun={listed.nouns[1]} />}
      >
        {(data) => (
          <>
            <Ranking
              caption={title}
              name={listed.name}
              others={listed.others}
              rows={data.rows}
              order={{ sort: data.view.sort, linkTo: (sort) => linkTo({ view: { ...view, sort, page: null } }) }}
              empty={data.view.search ? `No ${listed.nouns[1]} with “${data.view.search}” in this range.` : NOTHING}
            />
            <Pages view={data.view} data={data} nouns={listed.nouns} />
          </>
        )}
      </Panel>
    </>
  );
}

/** The list's title, and its link back. */
function titleOf(list: List, of: Detail | null): [title: string, back: string] {
  if (of === null) return [LISTED[list].title, ''];
  if (of.name === 'content') return ['AI services that used one title', 'The title'];
  return ['Content that one AI service used', 'The AI service'];
}

function Search({ view, noun }: { view: ListView; noun: string }) {
  const [text, setText] = useState(view.search);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => setText(view.search), [view.search]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const begin = (search: string) => {
    clearTimeout(timer.current);
    if (search !== view.search) replace({ view: { ...view, search, page: null } });
  };
  return (
    <input
      type="search"
      class="search"
      aria-label={`Search ${noun}`}
      placeholder={`Search ${noun}`}
      maxLength={SEARCH_CHARS_MAX}
      autocomplete="off"
      spellcheck={false}
      value={text}
      onInput={(event) => {
        const search = event.currentTarget.value;
        setText(search);
        clearTimeout(timer.current);
        timer.current = setTimeout(() => begin(search), PAUSE_MS);
      }}
      onKeyDown={(event) => event.key === 'Enter' && begin(text)}
    />
  );
}

/** The page before each page, by its cursor: a cursor leads forward only. */
const before = new Map<string, ListPage | null>();
const PAGES_MAX = 2_000;

function Pages({ view, data, nouns }: { view: ListView; data: ListAnswer; nouns: readonly [string, string] }) {
  const { page } = view;
  const skipped = page?.before ?? 0;
  const to = (page: ListPage | null) => linkTo({ view: { ...view, page } });
  if (data.next) before.set(data.next, page);
  for (const first of before.keys()) if (before.size > PAGES_MAX) before.delete(first);
  const previous = page ? before.get(page.cursor) : null;
  const noun = data.total === 1 ? nouns[0] : nouns[1];
  return (
    <nav class="pages" aria-label="Pages">
      <p role="status">
        {data.rows.length > 0 && `${count(skipped + 1)}–${count(skipped + data.rows.length)} of `}
        {count(data.total)} {noun}
      </p>
      {page && <a href={to(null)}>First</a>}
      {page && previous !== undefined && (
        <a href={to(previous)} rel="prev">
          <span aria-hidden="true">←</span> Previous
        </a>
      )}
      {data.next && (
        <a href={to({ cursor: data.next, before: skipped + data.rows.length })} rel="next">
          Next <span aria-hidden="true">→</span>
        </a>
      )}
    </nav>
  );
}
