// The totals of the selection, and what became of those of the period before.

import type { Dashboard } from '../api/answers';
import { dashboard } from '../api/questions';
import { useAsk } from '../ask';
import { type Change, change, count, PURPOSES, share, span, words } from '../format';
import { linkTo } from '../place';
import type { Chosen } from './chosen';
import { Panel } from './Panel';

export function Totals({ chosen }: { chosen: Chosen }) {
  // The period before has the same length, so it needs both ends.
  const query = { ...chosen.query, to: chosen.range.to, compare: 'previous' as const, limit: 0 };
  const asked = useAsk(JSON.stringify(query), (signal) => dashboard(query, signal));
  return (
    <Panel id="totals" title="Totals" asked={asked} rows={1}>
      {(data) => <Figures data={data} />}
    </Panel>
  );
}

function Figures({ data }: { data: Dashboard }) {
  const before = data.previous ?? null;
  const all = data.totalReceipts;
  return (
    <>
      <dl class="figures">
        <Figure name="Receipts" value={all} change={before && change(all, before.totalReceipts)} first />
        <Figure
          name="Clients"
          value={data.uniqueClients}
          change={before && change(data.uniqueClients, before.uniqueClients)}
        />
        {PURPOSES.map((purpose) => (
          <Figure
            key={purpose}
            name={words(purpose)}
            href={linkTo({ purpose })}
            swatch={purpose}
            value={data.usageByPurpose[purpose]}
            note={share(data.usageByPurpose[purpose], all)}
            change={before && change(data.usageByPurpose[purpose], before.usageByPurpose[purpose])}
          />
        ))}
      </dl>
      <p class="against">
        {before ? `Changes are against the ${span(Date.parse(before.to) - Date.parse(before.from))} before.` : ' '}
      </p>
    </>
  );
}

interface FigureProps {
  name: string;
  value: number;
  swatch?: string;
  /** To the numbers of this alone. */
  href?: string;
  note?: string;
  change: Change | null;
  first?: boolean;
}

function Figure({ name, value, swatch, href, note, change, first }: FigureProps) {
  return (
    <div class={first ? 'figure first' : 'figure'}>
      <dt>
        {swatch && <i class={`swatch ${swatch}`} />}
        {href ? <a href={href}>{name}</a> : name}
        {note && <span class="part"> {note}</span>}
      </dt>
      <dd class="value">{count(value)}</dd>
      {change && (
        <dd class="change">
          <span aria-hidden="true" class="arrow">
            {change.direction === 'more' ? '↑' : change.direction === 'less' ? '↓' : '='}
          </span>{' '}
          {change.text}
        </dd>
      )}
    </div>
  );
}
