// Who uses the content: companies that have proven who they are, and services that haven't.

import { asOf, useAsk } from '../ask';
import { count, plural, share } from '../format';
import { linkTo } from '../location';
import { Panel } from '../panels/Panel';
import { keyText } from '../panels/Trust';
import type { Operators, Services } from './answers';
import { get, withQuery } from './api';
import { Pages, usePages } from './Pages';
import { Things } from './Things';
import { Trusted } from './Trusted';

const DAYS = 30;
const DAY_MS = 86_400_000;
const PAGE = 25;

export function AiServices() {
  const from = new Date(asOf.value - DAYS * DAY_MS).toISOString();
  return (
    <>
      <p class="lede">
        An AI service is proven when its key belongs to a company that has shown its domain. Anybody can send the others
        under any name: their uses are counted, and marked as unproven. All of the last {DAYS} days.
      </p>
      <Companies from={from} />
      <Trusted />
      <Unproven from={from} />
    </>
  );
}

function Companies({ from }: { from: string }) {
  const pages = usePages();
  const query = { limit: PAGE, cursor: pages.cursor };
  const asked = useAsk(JSON.stringify(['operators', query]), (signal) =>
    get<Operators>(withQuery('/api/v1/analytics/operators', { ...query, from }), signal),
  );
  return (
    <Panel id="operators" title="Companies" asked={asked} rows={4}>
      {({ operators, nextCursor }) => (
        <>
          <Things
            headings={['Company', { text: 'AI services', as: 'number' }, { text: 'Uses', as: 'number' }]}
            empty="No uses in this time."
          >
            {operators.map((one) => (
              <tr key={one.operator}>
                <th scope="row" class="name">
                  {one.operator ?? 'Nobody has proven to be behind these'}{' '}
                  <span class={`trust ${one.trust}`}>{one.trust}</span>
                  {one.operator !== null && one.trust === 'unproven' && (
                    <small>Its domain is proven, and your account doesn’t trust it.</small>
                  )}
                </th>
                <td class="number" data-label="AI services: ">
                  {count(one.uniqueClients)}
                </td>
                <td class="number" data-label="Uses: ">
                  {count(one.receiptCount)}
                  <small>{share(one.byTrust.proven, one.receiptCount)} proven</small>
                </td>
              </tr>
            ))}
          </Things>
          <Pages pages={pages} next={nextCursor} of="companies" />
        </>
      )}
    </Panel>
  );
}

function Unproven({ from }: { from: string }) {
  const pages = usePages();
  const query = { limit: PAGE, cursor: pages.cursor, trust: 'unproven' };
  const asked = useAsk(JSON.stringify(['unproven', query]), (signal) =>
    get<Services>(withQuery('/api/v1/analytics/clients', { ...query, from }), signal),
  );
  return (
    <Panel id="unproven" title="Unproven AI services" asked={asked} rows={4}>
      {({ clients, totalClients, nextCursor }) => (
        <>
          <p class="soft">
            {totalClients === 0 ? 'None: all uses of this time are proven.' : plural(totalClients, 'service')}
          </p>
          {clients.length > 0 && (
            <Things headings={['It calls itself', { text: 'Uses', as: 'number' }]}>
              {clients.map((one) => (
                <tr key={`${one.clientId} ${one.keyFingerprint}`}>
                  <th scope="row" class="name">
                    <a href={linkTo({ view: { name: 'service', id: one.clientId, fingerprint: one.keyFingerprint } })}>
                      {one.name || one.clientId}
                    </a>
                    <small>{[one.organization, keyText(one)].filter(Boolean).join(' · ')}</small>
                    {one.clientIdClaimedBy && (
                      <small class="fault">
                        Its ID is that of a service of {one.clientIdClaimedBy.join(', ')}: somebody may pretend to be
                        it.
                      </small>
                    )}
                  </th>
                  <td class="number" data-label="Uses: ">
                    {count(one.receiptCount)}
                  </td>
                </tr>
              ))}
            </Things>
          )}
          <Pages pages={pages} next={nextCursor} of="unproven services" />
        </>
      )}
    </Panel>
  );
}
