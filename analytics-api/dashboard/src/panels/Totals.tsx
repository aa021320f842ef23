// The totals of the selection, and what became of those of the period before.

import type { Dashboard } from '../api/answers';
import { dashboard } from '../api/questions';
import { useAsk } from '../ask';
import { type Change, change, count, PURPOSES, share, span, words } from '../format';
import type { Trust } from '../place';
import { linkTo } from '../place';
import type { Chosen } from './chosen';
import { Panel } from './Panel';
import { BeforeVerification, OtherPart } from './Trust';

export function Totals({ chosen }: { chosen: Chosen }) {
  // The period before has the same length, so it needs both ends.
  const query = { ...chosen.query, to: chosen.range.to, compare: 'previous' as const, limit: 0 };
  const asked = useAsk(JSON.stringify(query), (signal) => dashboard(query, signal));
  const hasProven = useHasProven(chosen);
  const headline = (data: Dashboard): Trust =>
    chosen.place.trust ?? (hasProven || data.byTrust.proven.totalReceipts > 0 ? 'proven' : 'unproven');
  return (
    <Panel id="totals" title="Totals" asked={asked} rows={1}>
      {(data) => <Figures data={data} shown={headline(data)} />}
    </Panel>
  );
}

/**
 * Whether the account has any proven receipt, in any range: from then on the headline is of those.
 */
function useHasProven(chosen: Chosen): boolean {
  const { tz, domain } = chosen.query;
  const query = { tz, domain, trust: 'proven' as const, limit: 0 };
  const ever = useAsk(JSON.stringify(query), (signal) => dashboard(query, signal));
  return (ever.data?.totalReceipts ?? 0) > 0;
}

function Figures({ data, shown }: { data: Dashboard; shown: Trust }) {
  const part = data.byTrust[shown];
  const before = data.previous?.byTrust[shown] ?? null;
  const all = part.totalReceipts;
  const receipts = { proven: data.byTrust.proven.totalReceipts, unproven: data.byTrust.unproven.totalReceipts };
  return (
    <>
      <dl class="figures">
        <Figure
          name={shown === 'proven' ? 'Proven receipts' : 'Unproven receipts'}
          value={all}
          change={before && change(all, before.totalReceipts)}
          first
        />
        <Figure
          name="Clients"
          value={part.uniqueClients}
          change={before && change(part.uniqueClients, before.uniqueClients)}
        />
        {PURPOSES.map((purpose) => (
          <Figure
            key={purpose}
            name={words(purpose)}
            href={linkTo({ purpose })}
            swatch={purpose}
            value={part.usageByPurpose[purpose]}
            note={share(part.usageByPurpose[purpose], all)}
            change={before && change(part.usageByPurpose[purpose], before.usageByPurpose[purpose])}
          />
        ))}
      </dl>
      <p class="against">
        {data.previous
          ? `Changes are against the ${span(Date.parse(data.previous.to) - Date.parse(data.previous.from))} before.`
          : ' '}
        <OtherPart receipts={receipts} shown={shown} />
        <BeforeVerification receipts={data.receiptsBeforeVerification} />
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
