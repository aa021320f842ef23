// The account of the person: its plan, its quota, its domains.

import { authorized } from '../api/http';
import { useAsk } from '../ask';
import { count, dateTime, words } from '../format';
import { pageLocation } from '../location';
import { Panel } from '../panels/Panel';
import { person } from '../session';
import type { Domains } from './answers';
import { get } from './api';
import { nameOf } from './names';

interface Quota {
  limit: number;
  remaining: number;
  resetMs: number;
}

/** The quota, which comes in an answer's head. */
async function quotaOf(signal: AbortSignal): Promise<{ quota: Quota | null }> {
  const { headers } = await authorized(new Request('/api/v1/user/information', { signal }));
  const number = (name: string) => Number(headers.get(`x-ratelimit-${name}`) ?? Number.NaN);
  const quota = { limit: number('limit'), remaining: number('remaining'), resetMs: number('reset') * 1000 };
  return { quota: Object.values(quota).every(Number.isFinite) ? quota : null };
}

export function Account() {
  const asked = useAsk('quota', quotaOf);
  const domains = useAsk('domains', (signal) => get<Domains>('/api/v1/verification/status', signal));
  const who = person.value;
  const account = who?.accounts.find((one) => one.id === who.accountId);
  const { tz } = pageLocation.value;
  return (
    <>
      <Panel id="account" title="You and your account" asked={asked} rows={4}>
        {({ quota }) => (
          <dl class="pairs">
            <dt>Signed in as</dt>
            <dd>
              {who && nameOf(who)} {who?.name && who.email && <span class="soft">{who.email}</span>}
            </dd>
            <dt>Role</dt>
            <dd>{who?.role}</dd>
            <dt>Account</dt>
            <dd class="code">{account?.id ?? 'None yet: your first change makes one.'}</dd>
            {account && (
              <>
                <dt>Plan</dt>
                <dd>{words(account.tier)}</dd>
              </>
            )}
            {quota && (
              <>
                <dt>Requests</dt>
                <dd>
                  {count(quota.remaining)} of {count(quota.limit)} left until {dateTime(quota.resetMs, tz)}
                  <p class="note">All people of the account share them. API keys have their own, as many again.</p>
                </dd>
              </>
            )}
            {account?.deletion && (
              <>
                <dt>Deletion</dt>
                <dd class="fault">
                  The account is erased after {dateTime(Date.parse(account.deletion.erasedAfter), tz)}.
                </dd>
              </>
            )}
          </dl>
        )}
      </Panel>
      <Panel id="own-domains" title="Your domains" asked={domains} rows={2}>
        {({ domains: all }) => {
          const verified = all.filter((one) => one.status === 'verified');
          if (verified.length === 0)
            return (
              <p class="empty">
                None yet. <a href="#/welcome">Set up the first one.</a>
              </p>
            );
          return (
            <ul class="plain">
              {verified.map((one) => (
                <li key={one.domain}>{one.domain}</li>
              ))}
            </ul>
          );
        }}
      </Panel>
    </>
  );
}
