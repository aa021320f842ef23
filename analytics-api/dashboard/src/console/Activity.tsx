// Who did what in the account.

import { useAsk } from '../ask';
import { dateTime } from '../format';
import { pageLocation } from '../location';
import { Panel } from '../panels/Panel';
import type { Trail } from './answers';
import { get, withQuery } from './api';
import { actorName, type Names, useNames } from './names';
import { Pages, usePages } from './Pages';

const PAGE = 50;

const ACTIONS: Record<string, string> = {
  'session.start': 'signed in',
  'session.end': 'ended a session',
  'session.switch': 'came from another account',
  'account.create': 'made the account',
  'invitation.create': 'invited a person',
  'invitation.withdraw': 'withdrew an invitation',
  'member.join': 'joined the account',
  'member.add': 'became a member by a link',
  'member.set-role': 'gave a member another role',
  'member.remove': 'removed a member',
  'member.leave': 'left the account',
  'login-link.create': 'made a login link',
  'user.change': 'corrected what is known of a person',
  'reports.choose': 'chose the mails that they get',
  'key.create': 'made an API key',
  'key.rotate': 'replaced an API key',
  'key.revoke': 'revoked an API key',
  'account.set-tier': 'changed the plan',
  'account.set-quota': 'changed the number of requests',
  'account.trust-operators': 'chose the companies to trust',
  'account.delete': 'asked to delete the account',
  'account.keep': 'kept the account after all',
  'account.erase': 'erased the account',
  'operator.create': 'became an operator of AI services',
  'domain.challenge': 'asked for a record of a domain',
  'domain.held': 'proved a domain that another account holds',
  'domain.verify': 'showed a domain',
  'domain.renew': 'renewed a domain',
  'domain.revoke': 'gave a domain back',
  'domain.expire': 'noted that a domain ended',
  'domain.suspend': 'suspended a domain, as its proof was gone',
  'domain.restore': 'found the proof of a domain again',
  'domain.lose': 'gave a domain to another account that proved it',
  'domain.receive': 'gave you a domain that you had proven',
  'domain.contest': 'noted that another account has proven a domain',
  'entry.create': 'listed content',
  'entry.rectify': 'corrected an entry',
  'entry.erase': 'removed an entry',
  'entry.erase_all': 'removed all entries',
  'erasure.request': 'requested an erasure',
  'erasure.cancel': 'cancelled an erasure',
  'erasure.finish': 'finished an erasure',
};

export function Activity() {
  const pages = usePages();
  const path = withQuery('/api/v1/publisher/trail', { limit: PAGE, cursor: pages.cursor });
  const asked = useAsk(path, (signal) => get<Trail>(path, signal));
  const names = useNames();
  const { tz } = pageLocation.value;
  return (
    <Panel id="trail" title="Newest first" asked={asked} rows={10}>
      {({ entries, nextCursor }) => (
        <>
          {entries.length === 0 && <p class="empty">Nothing has happened yet.</p>}
          <ul class="newest">
            {entries.map((entry) => (
              <li key={entry.id}>
                <time dateTime={entry.at}>{dateTime(Date.parse(entry.at), tz)}</time>
                <span>
                  {actorName(entry.actor, names)} {ACTIONS[entry.action] ?? `did: ${entry.action}`}
                </span>
                <small>{[subjectName(entry.subject, names), entry.detail].filter(Boolean).join(' · ')}</small>
              </li>
            ))}
          </ul>
          <Pages pages={pages} next={nextCursor} of="activity" />
        </>
      )}
    </Panel>
  );
}

/** What it was done to: keys and people by name, others as they are. */
function subjectName(subject: string, names: Names): string {
  return names.get(`key:${subject}`) ?? names.get(`user:${subject}`) ?? subject;
}
