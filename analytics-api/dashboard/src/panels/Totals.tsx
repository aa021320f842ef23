// The totals of the selection, and what became of those of the period before.

import type { ComponentChildren } from 'preact';
import type { Dashboard } from '../api/answers';
import type { Asked } from '../ask';
import { type Change, change, count, dateTime, PURPOSES, share, words } from '../format';
import { linkTo } from '../location';
import { Narrow } from './Narrow';
import type { Numbers } from './numbers';
import { Panel } from './Panel';
import { BeforeVerification, ProvenPart } from './Trust';

type Period = NonNullable<Dashboard['previous']>;

export function Totals({ asked, tz }: { asked: Asked<Numbers<Dashboard>>; tz: string }) {
  return (
    <Panel id="totals" title="Totals" asked={asked} rows={1}>
      {(data) => <Figures data={data.totals} tz={tz} />}
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
        <Figure name="Uses" help={HELP.uses} value={all} change={previous && change(all, previous.totalReceipts)} first>
          <ProvenPart proven={data.byTrust.proven.totalReceipts} all={all} />
        </Figure>
        <Figure
          name="AI services"
          help={HELP.services}
          value={data.uniqueClients}
          change={previous && change(data.uniqueClients, previous.uniqueClients)}
        />
        {PURPOSES.map((purpose) => (
          <Figure
            key={purpose}
            name={words(purpose)}
            help={HELP[purpose]}
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
  if (all === 0) return <>No uses in this range. New ones appear here within a second.</>;
  const before = `${dateTime(Date.parse(previous.from), tz)} – ${dateTime(Date.parse(previous.to), tz)}`;
  return previous.totalReceipts ? <>Changes are against {before}.</> : <>No uses before, in {before}.</>;
}

interface FigureProps {
  name: string;
  value: number;
  swatch?: string;
  /** To the numbers of this alone. */
  href?: string;
  note?: string;
  /** One sentence about it. */
  help?: string;
  change?: Change | undefined;
  first?: boolean;
  children?: ComponentChildren;
}

/** One number: its name, its value, and what became of it since the period before. */
export function Figure({ name, value, swatch, href, note, help, change, first, children }: FigureProps) {
  const text = count(value);
  return (
    <div class={first ? 'figure first' : 'figure'}>
      <dt>
        {swatch && <i class={`swatch ${swatch}`} />}
        {href ? <Narrow href={href} name={name} /> : name}
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
      {help && <dd class="help">{help}</dd>}
    </div>
  );
}

/** One sentence for each number. */
export const HELP = {
  uses: 'How often AI services reported that they used your content. Proven: by a company that has proven its domain.',
  services: 'Programs that used it, each by its key.',
  titles: 'Different titles that it used.',
  training: 'To build a model.',
  inference: 'To answer a question.',
  research: 'To study something.',
};
