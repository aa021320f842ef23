// One entry, or one client.

import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import type { Client, Entry, PurposeCounts, TotalsByTrust } from '../api/answers';
import { explain, type Problem } from '../api/problem';
import { client, entry } from '../api/questions';
import { count, dateTime, PURPOSES, share, words } from '../format';
import { type Detail, linkTo } from '../location';
import type { Chosen } from '../panels/chosen';
import { csvOf, filterBy, LISTED, rankedClient, rankedEntry } from '../panels/listed';
import { All, NewestReceipts } from '../panels/lists';
import { seriesQuery, useNumbers } from '../panels/numbers';
import { OverTime } from '../panels/OverTime';
import { Panel } from '../panels/Panel';
import { Ranking } from '../panels/Ranking';
import { Figure, HELP } from '../panels/Totals';
import { Badge, claimText, keyText, ProvenPart } from '../panels/Trust';

type EntryLocation = Extract<Detail, { name: 'content' }>;
type ClientLocation = Extract<Detail, { name: 'service' }>;

const ROWS = 12;
/** Keys that are listed below a client's title. */
const KEYS_MAX = 4;

export function EntryView({ of, chosen }: { of: EntryLocation; chosen: Chosen }) {
  const { id } = of;
  const filter = filterBy(of);
  const query = { ...chosen.query, limit: ROWS };
  const series = seriesQuery(chosen, filter);
  const asked = useNumbers([id, query], series, (signal) => entry(id, query, signal));
  const found = asked.data?.totals;
  if (asked.problem?.status === 404) return <Nothing kind="Title" title="No such title" of={asked.problem} />;
  return (
    <>
      <Title kind="Title" title={found?.title || found?.url} id={id}>
        {found && <EntryFacts of={found} />}
      </Title>
      <Panel id="totals" title="Totals" asked={asked} rows={1}>
        {({ totals: data }) => (
          <Facts
            total={data.totalReceipts}
            trust={data.byTrust}
            others={['AI services', data.uniqueClients, HELP.services]}
            purposes={data.usageByPurpose}
            of={data}
            tz={chosen.location.tz}
          />
        )}
      </Panel>
      <OverTime asked={asked} query={series} chosen={chosen} />
      <div class="columns">
        <Panel
          id="wider"
          title="Top AI services"
          asked={asked}
          rows={ROWS}
          csv={({ totals: data }) => csvOf(LISTED.services, { ...chosen.query, ...filter }, data.uniqueClients)}
        >
          {({ totals: data }) => (
            <>
              <Ranking
                caption="AI services that used this title, most uses first"
                name={{ text: 'AI service' }}
                rows={data.topClients.map(rankedClient)}
                all={data.totalReceipts}
                empty="Nobody used this title in this range."
              />
              <All list="services" total={data.uniqueClients} />
            </>
          )}
        </Panel>
        <NewestReceipts chosen={chosen} filter={filter} />
      </div>
    </>
  );
}

export function ClientView({ of, chosen }: { of: ClientLocation; chosen: Chosen }) {
  const { id, fingerprint } = of;
  const filter = filterBy(of);
  const key = fingerprint === null ? {} : { keyFingerprint: fingerprint };
  const query = { ...chosen.query, ...key, limit: ROWS };
  const series = seriesQuery(chosen, filter);
  const asked = useNumbers([id, query], series, (signal) => client(id, query, signal));
  const found = asked.data?.totals ?? null;
  if (asked.problem?.status === 404) return <Nothing kind="AI service" title="No such AI service" of={asked.problem} />;
  return (
    <>
      <Title kind={fingerprint === null ? 'ID of AI services' : 'AI service'} title={onlyName(found)} id={id}>
        {found && <ClientFacts of={found} isOne={fingerprint !== null} />}
      </Title>
      <Panel id="totals" title="Totals" asked={asked} rows={1}>
        {({ totals: data }) => (
          <Facts
            total={data.totalReceipts}
            trust={data.byTrust}
            others={['Titles', data.uniqueContent, HELP.titles]}
            purposes={data.usageByPurpose}
            of={data}
            tz={chosen.location.tz}
          />
        )}
      </Panel>
      <OverTime asked={asked} query={series} chosen={chosen} />
      <div class="columns">
        <Panel
          id="wider"
          title="Top content"
          asked={asked}
          rows={ROWS}
          csv={({ totals: data }) => csvOf(LISTED.content, { ...chosen.query, ...filter }, data.uniqueContent)}
        >
          {({ totals: data }) => (
            <>
              <Ranking
                caption="Titles that this AI service used, most uses first"
                name={{ text: 'Title' }}
                rows={data.topContent.map(rankedEntry)}
                all={data.totalReceipts}
                empty="This AI service used nothing in this range."
              />
              <All list="content" total={data.uniqueContent} />
            </>
          )}
        </Panel>
        <NewestReceipts chosen={chosen} filter={filter} />
      </div>
    </>
  );
}

function Title({
  kind,
  title,
  id,
  children,
}: {
  kind: string;
  title: string | undefined;
  id: string;
  children: ComponentChildren;
}) {
  useEffect(() => {
    document.title = `${title || kind} · Receipts`;
    return () => {
      document.title = 'Receipts';
    };
  }, [kind, title]);
  return (
    <div class="title">
      <h1 tabIndex={-1}>
        <small>{kind}</small> {title || id}
      </h1>
      <div class="facts">{children || ' '}</div>
    </div>
  );
}

/** Instead of numbers where there can't be any, and why. */
export function Nothing({ kind, title, of }: { kind: string; title: string; of?: Problem }) {
  return (
    <Title kind={kind} title={title} id="">
      {of && <p>{explain(of).advice}</p>}
    </Title>
  );
}

function EntryFacts({ of }: { of: Entry }) {
  return (
    <>
      {of.url && (of.unknownEntry === false ? <Outside url={of.url} /> : <span>{of.url}</span>)}
      {of.unknownEntry && <span class="soft">Not in your catalogue</span>}
      {of.urls.length > 1 && <span class="soft">Reported under {count(of.urls.length)} addresses</span>}
    </>
  );
}

/** A name for the title: none if several keys use the ID, since anybody can. */
const onlyName = (of: Client | null) => (of?.uniqueClients === 1 ? of.keys[0]?.name : undefined);

function ClientFacts({ of, isOne }: { of: Client; isOne: boolean }) {
  const versions = of.keys.length === 1 ? (of.keys[0]?.versions ?? []) : [];
  const linkToKey = (fingerprint: string | null) => linkTo({ view: { name: 'service', id: of.clientId, fingerprint } });
  return (
    <>
      {of.keys.slice(0, KEYS_MAX).map((key) => (
        <span key={key.keyFingerprint} title={key.keyFingerprint ?? ''}>
          <Badge trust={key.trust} /> {[key.operator, key.name, key.organization].filter(Boolean).join(' · ')}{' '}
          {isOne || !key.keyFingerprint ? keyText(key) : <a href={linkToKey(key.keyFingerprint)}>{keyText(key)}</a>}
          {!isOne && `: ${count(key.receiptCount)}`}
          {claimText(key)}
        </span>
      ))}
      {of.uniqueClients > KEYS_MAX && <span class="soft">and {count(of.uniqueClients - KEYS_MAX)} keys more</span>}
      {versions.length > 0 && (
        <span class="soft">
          {versions.length === 1 ? 'Version' : 'Versions'} {versions.slice(0, 8).join(', ')}
          {versions.length > 8 && ' …'}
        </span>
      )}
      {isOne && <a href={linkToKey(null)}>All AI services with this ID</a>}
    </>
  );
}

/** A link only where it leads to the web: what a receipt names as its URL is its sender's text. */
function Outside({ url }: { url: string }) {
  if (!/^https?:\/\//i.test(url)) return <span>{url}</span>;
  return (
    <a href={url} rel="noopener noreferrer nofollow" target="_blank">
      {url}
      <span class="unseen"> (opens a new tab)</span>
    </a>
  );
}

interface FactsProps {
  total: number;
  trust: TotalsByTrust;
  others: [name: string, value: number, help: string];
  purposes: PurposeCounts;
  of: Pick<Entry, 'firstSeen' | 'lastSeen'>;
  tz: string;
}

function Facts({ total, trust, others, purposes, of, tz }: FactsProps) {
  const seen = (at: string | null | undefined) => (!at ? '–' : dateTime(Date.parse(at), tz));
  return (
    <>
      <dl class="figures">
        <Figure name="Uses" help={HELP.uses} value={total} first>
          <ProvenPart proven={trust.proven.totalReceipts} all={total} />
        </Figure>
        <Figure name={others[0]} value={others[1]} help={others[2]} />
        {PURPOSES.map((purpose) => (
          <Figure
            key={purpose}
            name={words(purpose)}
            help={HELP[purpose]}
            href={linkTo({ purpose })}
            swatch={purpose}
            value={purposes[purpose]}
            note={share(purposes[purpose], total)}
          />
        ))}
      </dl>
      <p class="against">
        First {seen(of.firstSeen)} · last {seen(of.lastSeen)}, within this range
      </p>
    </>
  );
}
