// The totals of the selection, and what became of those of the period before.

import type { ComponentChildren } from 'preact';
import type { Dashboard } from '../api/answers';
import { dashboard } from '../api/questions';
import { useAsk } from '../ask';
import { type Change, change, count, dateTime, PURPOSES, share, words } from '../format';
import { linkTo } from '../location';
import type { Chosen } from './chosen';
import { Panel } from './Panel';
import { BeforeVerification, ProvenPart } from './Trust';

type Period = NonNullable<Dashboard['previous']>;

export function Totals({ chosen }: { chosen: Chosen }) {
  // The period before has the same length, so it needs both ends.
  const query = { ...chosen.query, to: chosen.range.to, compare: 'previous' as const, limit: 0 };
  const asked = useAsk(JSON.stringify(query), (signal) => dashboard(query, signal));
  return (
    <Panel id="totals" title="Totals" asked={asked} rows={1}>
      {(data) => <Figures data={data} tz={chosen.location.tz} />}
    </Panel>
  );
}

function Figures({ data, tz }: { data: Dashboard; tz: string }) {
  const { totalReceipts: all, usageByPurpose } = data;
  // Growth from nothing says nothing.
  const previous = data.previous?.totalReceipts ? data.previous : undefined;
  return (
    <>
      <dl class="figures">
        <Figure name="Receipts" value={all} change={previous && change(all, previous.totalReceipts)} first>
          <ProvenPart proven={data.byTrust.proven.totalReceipts} all={all} />
        </Figure>
        <Figure
          name="Clients"
          value={data.uniqueClients}
          change={previous && change(data.uniqueClients, previous.uniqueClients)}
        />
        {PURPOSES.map((purpose) => (
          <Figure
            key={purpose}
            name={words(purpose)}
            href={linkTo({ purpose })}
            swatch={purpose}
            value={usageByPurpose[purpose]}
            note={share(usageByPurpose[purpose], all)}
            change={previous && change(usageByPurpose[purpose], previous.usageByPurpose[purpose])}
          />
        ))}
      </dl>
      <p class="against">
        {data.previous && <Compared all={all} previous={data.previous} tz={tz} />}
        <BeforeVerification receipts={data.receiptsBeforeVerification} />
      </p>
    </>
  );
}

/** What changes are against. */
function Compared({ all, previous, tz }: { all: number; previous: Period; tz: string }) {
  if (all === 0) return <>No receipts in this range. They appear here within a second of their arrival.</>;
  const before = `${dateTime(Date.parse(previous.from), tz)} – ${dateTime(Date.parse(previous.to), tz)}`;
  return previous.totalReceipts ? <>Changes are against {before}.</> : <>No receipts before, in {before}.</>;
}

interface FigureProps {
  name: string;
  value: number;
  swatch?: string;
  /** To the numbers of this alone. */
  href?: string;
  note?: string;
  change?: Change | undefined;
  first?: boolean;
  children?: ComponentChildren;
}

/** One number: its name, its value, and what became of it since the period before. */
export function Figure({ name, value, swatch, href, note, change, first, children }: FigureProps) {
  const text = count(value);
  return (
    <div class={first ? 'figure first' : 'figure'}>
      <dt>
        {swatch && <i class={`swatch ${swatch}`} />}
        {href ? <a href={href}>{name}</a> : name}
        {note && <span class="part"> {note}</span>}
      </dt>
      <dd class="value" style={{ '--digits': text.length }}>
        {text}
      </dd>
      {change && (
        <dd class="change">
          <span aria-hidden="true" class="arrow">
            {change.direction === 'more' ? '↑' : change.direction === 'less' ? '↓' : '='}
          </span>{' '}
          {change.text}
        </dd>
      )}
      {children}
    </div>
  );
}
