// The record to publish for a domain, and what was found of it.

import { effect, signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import { refresh } from '../ask';
import { person } from '../session';
import { Outcome, useAction } from './Action';
import type { Attempt, DomainCheck, DomainRecord } from './answers';
import { get, withQuery } from './api';
import { Copy } from './Copy';

/** Time between two checks while somebody watches. */
const CHECK_EVERY_MS = 15_000;
const CHECKS_MAX = 40;

/**
 * Records to publish by their domains; null where only the check is of interest. A token is shown
 * once, so it is kept in memory until the page is left, and nowhere else.
 */
const issued = signal<Readonly<Record<string, DomainRecord | null>>>({});

// The next person at this page isn't shown them.
effect(() => {
  if (person.value === null) issued.value = {};
});

export function keepRecord(domain: string, record: DomainRecord | null): void {
  issued.value = { ...issued.peek(), [domain]: record ?? issued.peek()[domain] ?? null };
}

function dropRecord(domain: string): void {
  const { [domain]: _, ...rest } = issued.peek();
  issued.value = rest;
}

/** What is to be published, domain by domain. */
export function Proofs() {
  return (
    <>
      {Object.entries(issued.value).map(([domain, record]) => (
        <Proof key={`${domain} ${record?.value}`} domain={domain} record={record} />
      ))}
    </>
  );
}

function Proof({ domain, record }: { domain: string; record: DomainRecord | null }) {
  const [check, setCheck] = useState<DomainCheck | null>(null);
  const [checks, setChecks] = useState(0);
  const action = useAction(async () => {
    setChecks((n) => n + 1);
    const found = await get<DomainCheck>(withQuery('/api/v1/verification/check', { domain }));
    setCheck(found);
    if (isDone(found)) refresh();
  });
  const waits = check === null || !isDone(check);
  useEffect(() => {
    // Whoever only wants to know sees it at once; a new record isn't there yet.
    if (record === null) void action.run();
  }, [record]);
  useEffect(() => {
    if (!waits || checks >= CHECKS_MAX) return;
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') void action.run();
    }, CHECK_EVERY_MS);
    return () => clearInterval(timer);
  }, [waits, checks]);
  return (
    <section class="panel proof" aria-labelledby={`proof-${domain}`}>
      <header>
        <h2 id={`proof-${domain}`}>Show that {domain} is yours</h2>
        <button type="button" class="quiet" onClick={() => dropRecord(domain)} aria-label={`Close: ${domain}`}>
          Close
        </button>
      </header>
      {waits && record && <RecordToPublish record={record} />}
      <div role="status">{check && <Result check={check} />}</div>
      {waits && (
        <p class="row more">
          <button type="button" class="primary" disabled={action.busy} onClick={() => void action.run()}>
            {action.busy ? 'Checking…' : 'Check now'}
          </button>
          <span class="note">
            {checks < CHECKS_MAX
              ? 'It is checked by itself every 15 seconds while you look at it.'
              : 'It isn’t checked by itself any more: press the button.'}
          </span>
        </p>
      )}
      <Outcome of={action} />
    </section>
  );
}

/** A renewal isn't done while attempts for its record are listed. */
const isDone = (check: DomainCheck): boolean => check.verified && !check.attempts?.length;

const PLACES: Record<string, [text: string, name: string, value: string]> = {
  TXT: ['Add this TXT record where the DNS of the domain is looked after.', 'Name', 'Value'],
  file: ['Publish a text file with this content at this address.', 'Address', 'Content'],
  meta: ['Put this tag in the head of the page at this address.', 'Address', 'Tag'],
};

function RecordToPublish({ record }: { record: DomainRecord }) {
  const [text, name, value] = PLACES[record.type] ?? ['Publish this.', 'Name', 'Value'];
  return (
    <>
      <p class="soft">
        {text} Leave it there afterwards: it is looked for again from time to time.
        {record.ttl !== undefined && ` Time to live: ${record.ttl} seconds.`}
      </p>
      <Copy label={name} text={record.name} />
      <Copy label={value} text={record.value} lines={2} />
      <p class="note">The value is shown only now. If you lose it, ask for a new record.</p>
    </>
  );
}

function Result({ check }: { check: DomainCheck }) {
  if (isDone(check)) {
    return (
      <div class="prompt done">
        <p>
          <strong>{check.domain} is yours.</strong> Its uses are counted for you. Leave the record published.
        </p>
      </div>
    );
  }
  return (
    <>
      <p>
        <strong>{check.verified ? 'The new record wasn’t found yet.' : 'Not found yet.'}</strong>{' '}
        {check.attempts?.length ? '' : check.detail}
      </p>
      {check.attempts?.map((attempt) => (
        <Looked key={attempt.method} attempt={attempt} />
      ))}
    </>
  );
}

function Looked({ attempt }: { attempt: Attempt }) {
  return (
    <dl class="pairs looked">
      <dt>Looked at</dt>
      <dd class="code">{attempt.expected.name}</dd>
      <dt>Expected</dt>
      <dd class="code">{attempt.expected.value}</dd>
      <dt>Found</dt>
      <dd class="code">
        {attempt.found.length > 0 ? attempt.found.map((one) => <div key={one}>{one}</div>) : 'nothing'}
      </dd>
      <dt>What to do</dt>
      <dd>{attempt.advice}</dd>
    </dl>
  );
}
