// The first steps: a domain, content, the first receipt.

import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { refresh, useAsk } from '../ask';
import { count, plural, words } from '../format';
import { Failed } from '../panels/Panel';
import { Allowed, Outcome, useAction } from './Action';
import type { Domains, Entries } from './answers';
import { get } from './api';
import { DomainForm } from './DomainForm';
import { Proofs } from './Proof';
import { type Explained, tryReceipt, type Used } from './testReceipt';
import { Upload } from './Upload';

/** Time between two looks for the first receipt. */
const LOOK_EVERY_MS = 15_000;
const RECEIPTS = '/api/v1/analytics/dashboard?beforeVerification=include';

export function Welcome() {
  const domains = useAsk('domains', (signal) => get<Domains>('/api/v1/verification/status', signal));
  const verified = domains.data?.domains.filter((one) => one.status === 'verified') ?? [];
  const hasDomain = verified.length > 0;
  const entries = useAsk('first entry', (signal) => get<Entries>('/api/v1/publisher/entries?limit=1', signal));
  const [entry] = entries.data?.entries ?? [];
  const receipts = useAsk(hasDomain ? 'first receipt' : '', async (signal) =>
    hasDomain ? (await get<{ totalReceipts: number }>(RECEIPTS, signal)).totalReceipts : 0,
  );
  const received = receipts.data ?? 0;
  useEffect(() => {
    if (!hasDomain || received > 0) return;
    const timer = setInterval(() => document.visibilityState === 'visible' && refresh(), LOOK_EVERY_MS);
    return () => clearInterval(timer);
  }, [hasDomain, received > 0]);
  const problem = [domains, entries, receipts].find((one) => one.problem !== null && one.data === null);
  if (problem?.problem) return <Failed problem={problem.problem} retry={problem.retry} of="First steps" />;
  if (domains.data === null || entries.data === null) return <div aria-busy="true" />;
  const done = [hasDomain, entry !== undefined, received > 0];
  return (
    <>
      <p class="lede">Three steps until you see which AI services use what you publish, and for what.</p>
      <ol class="steps">
        <Step title="Show that your domain is yours" isDone={hasDomain} isNext={!hasDomain}>
          {hasDomain ? (
            <p>
              {verified.map((one) => one.domain).join(', ')}. <a href="#/settings/domains">All domains</a>
            </p>
          ) : (
            <Allowed needs="editor" to="add domains">
              <DomainForm />
            </Allowed>
          )}
          <Proofs />
        </Step>
        <Step title="List what you publish" isDone={entry !== undefined} isNext={hasDomain && entry === undefined}>
          {entry ? (
            <p>
              “{entry.title}” is the newest. <a href="#/settings/catalogue">The catalogue</a>
            </p>
          ) : hasDomain ? (
            <Allowed needs="editor" to="list content">
              <Upload />
            </Allowed>
          ) : (
            <p class="soft">From a sitemap, a CSV, or addresses that you paste.</p>
          )}
        </Step>
        <Step title="See the first receipt" isDone={received > 0} isNext={done[1] === true && received === 0}>
          {received > 0 ? (
            <p>
              {plural(received, 'receipt')} so far. <a href="#/">See the numbers</a>
            </p>
          ) : (
            <p class="soft">
              AI services send a receipt for each use. It appears here within seconds; this page looks every 15 seconds.
            </p>
          )}
          {hasDomain && <TestReceipt used={entry ?? homePage(verified[0]?.domain ?? '')} />}
        </Step>
      </ol>
      <p class="note" role="status">
        {count(done.filter(Boolean).length)} of 3 steps done.
      </p>
    </>
  );
}

/** What a receipt names where nothing is listed: any ID will do for a test. */
const homePage = (domain: string): Used => ({ entryId: crypto.randomUUID(), url: `https://${domain}/`, domain });

interface StepProps {
  title: string;
  isDone: boolean;
  isNext: boolean;
  children: ComponentChildren;
}

function Step({ title, isDone, isNext, children }: StepProps) {
  return (
    <li class="step" aria-current={isNext ? 'step' : undefined}>
      <h2>
        {title}{' '}
        {isDone ? <span class="badge good">Done</span> : <span class="badge off">{isNext ? 'Next' : 'Open'}</span>}
      </h2>
      {children}
    </li>
  );
}

function TestReceipt({ used }: { used: Used }) {
  const [explained, setExplained] = useState<Explained | null>(null);
  const action = useAction(async () => setExplained(await tryReceipt(used)));
  return (
    <div class="more">
      <p>
        <button type="button" disabled={action.busy} onClick={() => void action.run()}>
          {action.busy ? 'Testing…' : 'Try a test receipt'}
        </button>{' '}
        <span class="note">It is checked like any other, and neither stored nor counted.</span>
      </p>
      {explained && (
        <div class={explained.outcome === 'verified' ? 'prompt done' : 'prompt'} role="status">
          <p>
            <strong>
              {explained.outcome === 'verified'
                ? 'A receipt like this is accepted.'
                : 'A receipt like this is rejected.'}
            </strong>{' '}
            <span class="code">{used.url}</span>
          </p>
          <dl class="pairs">
            {explained.checks
              .filter((one) => one.result !== 'skipped')
              .map((one) => (
                <>
                  <dt>{words(one.check)}</dt>
                  <dd>
                    {one.result}: {one.detail}
                  </dd>
                </>
              ))}
          </dl>
        </div>
      )}
      <Outcome of={action} />
    </div>
  );
}
