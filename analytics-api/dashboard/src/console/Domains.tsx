// Domains: whose they are, the record that proves one, and a check of what is published.

import { refresh, useAsk } from '../ask';
import { serverNow } from '../clock';
import { date, dateTime, span } from '../format';
import { pageLocation } from '../location';
import { Panel } from '../panels/Panel';
import { Allowed, may, Outcome, useAction } from './Action';
import type { Domains as DomainList, DomainStatus, IssuedToken, Method } from './answers';
import { get, send } from './api';
import { Confirm } from './Confirm';
import { DomainForm } from './DomainForm';
import { keepRecord, Proofs } from './Proof';
import { ACTIONS, Things } from './Things';

const SOON_MS = 30 * 86_400_000;

const METHODS: Record<Method | 'local', string> = {
  dns: 'DNS record',
  https: 'File on the site',
  meta: 'Tag in the home page',
  local: 'Vouched for by whoever runs this service',
};

export function Domains() {
  const asked = useAsk('domains', (signal) => get<DomainList>('/api/v1/verification/status', signal));
  return (
    <>
      <p class="lede">
        Uses of what you publish count for you once you have shown that its domain is yours, subdomains included.
      </p>
      <Panel id="domains" title="Your domains" asked={asked} rows={3}>
        {({ domains, expiryMails }) =>
          domains.length === 0 ? (
            <p class="empty">No domain yet. Add the first one below.</p>
          ) : (
            <>
              <Things headings={['Domain', 'State', 'Shown by', ACTIONS]}>
                {domains.map((domain) => (
                  <Row key={domain.domain} domain={domain} />
                ))}
              </Things>
              {!expiryMails && (
                <p class="note more">This service sends no mails: look here from time to time for what ends soon.</p>
              )}
            </>
          )
        }
      </Panel>
      <Proofs />
      <section class="panel" aria-labelledby="add-title">
        <h2 id="add-title">Add a domain</h2>
        <Allowed needs="editor" to="add and renew domains">
          <DomainForm />
        </Allowed>
      </section>
    </>
  );
}

function Row({ domain }: { domain: DomainStatus }) {
  const { tz } = pageLocation.value;
  const name = domain.domain;
  const renew = useAction(async () => {
    const token = await send<IssuedToken>('POST', '/api/v1/verification/renew', { domain: name });
    keepRecord(name, token.record);
  });
  const again = useAction(async () => {
    const token = await send<IssuedToken>('POST', '/api/v1/verification/generate', { domain: name });
    keepRecord(name, token.record);
  });
  const giveBack = useAction(async () => {
    await send('DELETE', `/api/v1/verification/${encodeURIComponent(name)}`);
    refresh();
  });
  const check = useAction(async () => keepRecord(name, null));
  const isVerified = domain.status === 'verified';
  const canRenew = isVerified || domain.reason === 'suspended' || domain.reason === 'expired';
  const canCheck = domain.openTokens.length > 0 || domain.reason === 'suspended';
  return (
    <tr>
      <th scope="row" class="name">
        {name}
        <small>{domain.includeSubdomains ? 'with its subdomains' : isVerified && 'without its subdomains'}</small>
      </th>
      <td>
        <State domain={domain} />
        {domain.contested && <small class="fault">Someone else has proven it, too: keep your proof published.</small>}
      </td>
      <td>
        {domain.method ? METHODS[domain.method] : '–'}
        {domain.verifiedAt && <small>{dateTime(Date.parse(domain.verifiedAt), tz)}</small>}
      </td>
      <td>
        {may('editor') && (
          <div class="actions">
            {canCheck && (
              <button
                type="button"
                class="quiet"
                disabled={check.busy}
                onClick={() => void check.run()}
                aria-label={`Check: ${name}`}
              >
                Check
              </button>
            )}
            <button
              type="button"
              class="quiet"
              disabled={renew.busy || again.busy}
              onClick={() => void (canRenew ? renew : again).run()}
              aria-label={`${canRenew ? 'Renew' : 'New record'}: ${name}`}
            >
              {canRenew ? 'Renew' : 'New record'}
            </button>
            {isVerified && (
              <Confirm label="Give back" of={name} yes="Give it back" action={giveBack}>
                Its numbers disappear at once, and anybody who proves it gets it.
              </Confirm>
            )}
          </div>
        )}
        <Outcome of={renew} />
        <Outcome of={again} />
      </td>
    </tr>
  );
}

function State({ domain }: { domain: DomainStatus }) {
  const { tz } = pageLocation.value;
  const endsMs = domain.expiresAt ? Date.parse(domain.expiresAt) : null;
  if (domain.status === 'verified' && endsMs !== null) {
    const left = endsMs - serverNow();
    return (
      <>
        {left < SOON_MS ? <span class="badge warn">Ends soon</span> : <span class="badge good">Verified</span>}
        <small>
          until {date(endsMs, tz)}
          {left < SOON_MS && `, in ${span(left)}`}
          {domain.openTokens.length > 0 && '; renewal waits for its record'}
        </small>
      </>
    );
  }
  switch (domain.reason) {
    case 'pending':
      return <span class="badge warn">Waiting for its record</span>;
    case 'suspended':
      return (
        <>
          <span class="badge warn">Suspended</span>
          <small>The proof wasn’t found several times: publish it again, or renew.</small>
        </>
      );
    case 'expired':
      return (
        <>
          <span class="badge warn">Ended</span>
          <small>{endsMs !== null && date(endsMs, tz)}</small>
        </>
      );
    default:
      return <span class="badge off">Given back</span>;
  }
}
