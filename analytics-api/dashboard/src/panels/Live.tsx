// What comes in as it comes in: today's totals and the newest receipts, on a tape.

import { useComputed, useSignal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import type { LiveReceipt } from '../api/answers';
import { explain } from '../api/problem';
import { clock, count, plural } from '../format';
import * as feed from '../live/feed';
import { linkTo } from '../location';
import { bare } from './listed';
import { Unfiltered, Use } from './lists';

/** Screen readers hear of arrivals this often at most. */
const SPOKEN_MS = 20_000;

export function Live({ tz, domain }: { tz: string; domain: string | null }) {
  const held = useSignal<readonly LiveReceipt[] | null>(null);
  const shown = useComputed(() => held.value ?? feed.receipts.value);
  const paused = held.value !== null;
  useEffect(() => feed.listen(tz, domain), [tz, domain]);
  const today = feed.totals.value;
  return (
    <section class="panel live" aria-labelledby="live-title">
      <header>
        <h2 id="live-title">Live</h2>
        <div class="actions">
          <State />
          <button type="button" class="quiet" onClick={() => (held.value = paused ? null : feed.receipts.value)}>
            {paused ? 'Go on' : 'Pause'}
          </button>
        </div>
      </header>
      <div class="tape">
        <p class="today">
          {today ? (
            <>
              <b>{count(today.totalReceipts)}</b> {today.totalReceipts === 1 ? 'use' : 'uses'} today by{' '}
              <b>{count(today.uniqueClients)}</b> {today.uniqueClients === 1 ? 'AI service' : 'AI services'},{' '}
              <b>{count(today.byTrust.proven.totalReceipts)}</b> of them proven
            </>
          ) : (
            'Today so far: –'
          )}
        </p>
        <Unfiltered what="All uses" />
        <div class="lines">
          <ol aria-label="Newest uses" onKeyDown={moveFocus}>
            {shown.value.map((receipt, at) => (
              <Line key={feed.idOf(receipt)} receipt={receipt} tz={tz} isFirst={at === 0} />
            ))}
          </ol>
        </div>
        {shown.value.length === 0 && <p class="empty">New uses appear here within a second.</p>}
      </div>
      <Spoken />
    </section>
  );
}

/** Arrow keys go from receipt to receipt: the list is one stop of Tab. */
function moveFocus(event: KeyboardEvent) {
  const lines = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>('a')];
  const now = lines.indexOf(document.activeElement as HTMLElement);
  const steps: Record<string, number> = { ArrowDown: now + 1, ArrowUp: now - 1, Home: 0, End: lines.length - 1 };
  const step = steps[event.key];
  if (step === undefined) return;
  lines[step]?.focus();
  event.preventDefault();
}

function Line({ receipt, tz, isFirst }: { receipt: LiveReceipt; tz: string; isFirst: boolean }) {
  return (
    <li>
      <time dateTime={receipt.receivedAt}>{clock(Date.parse(receipt.receivedAt), tz)}</time>
      <a
        class="cut"
        href={linkTo({ view: { name: 'content', id: receipt.entryId } })}
        tabIndex={isFirst ? 0 : -1}
        title={receipt.title || receipt.url}
      >
        {receipt.title || bare(receipt.url)}
      </a>
      <Use receipt={receipt} by={receipt.clientName} />
    </li>
  );
}

function State() {
  const now = feed.connection.value;
  if (now.state === 'open') return <span class="state open">on</span>;
  if (now.state === 'connecting') return <span class="state">connecting…</span>;
  return <span class="state off">{now.problem ? explain(now.problem).title : 'reconnecting…'}</span>;
}

/** How many came, now and then, in words. */
function Spoken() {
  const [text, setText] = useState('');
  useEffect(() => {
    let announced = feed.arrived.peek();
    const timer = setInterval(() => {
      const now = feed.arrived.peek();
      if (now > announced) setText(`${plural(now - announced, 'new use')}.`);
      announced = now;
    }, SPOKEN_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <p class="unseen" aria-live="polite">
      {text}
    </p>
  );
}
