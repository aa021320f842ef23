// Members: the people of the account, their roles, and invitations.

import { useState } from 'preact/hooks';
import { refresh, useAsk } from '../ask';
import { date, dateTime } from '../format';
import { pageLocation } from '../location';
import { Panel } from '../panels/Panel';
import type { Person } from '../session';
import { Allowed, may, useAction } from './Action';
import type { Invitation, Invitations, Member, Members as MemberList, NewInvitation } from './answers';
import { get, send } from './api';
import { Confirm } from './Confirm';
import { InviteForm, ROLES, RolePick } from './InviteForm';
import { ShownOnce } from './ShownOnce';
import { ACTIONS, Things } from './Things';

const MEMBERS = '/api/v1/auth/members';
const INVITATIONS = '/api/v1/auth/invitations';

export function Members() {
  const [made, setMade] = useState<NewInvitation | null>(null);
  const members = useAsk('members', (signal) => get<MemberList>(MEMBERS, signal));
  return (
    <>
      <p class="lede">The people who see your numbers and look after your account.</p>
      <Panel id="members" title="Members" asked={members} rows={3}>
        {({ members: all }) => (
          <Things headings={['Person', 'Role', 'Since', ACTIONS]}>
            {all.map((member) => (
              <Row key={member.userId} of={member} />
            ))}
          </Things>
        )}
      </Panel>
      {made?.link && (
        <ShownOnce
          key={made.invitationId}
          label="Link of the invitation"
          secret={made.link}
          done="I have sent it"
          onDone={() => setMade(null)}
        >
          <strong>The link is made.</strong> Hand it to the person: it is shown only now, and whoever signs in through
          it becomes a member.
        </ShownOnce>
      )}
      <Allowed needs="owner" to="invite people, change roles and remove members" fresh>
        <section class="panel" aria-labelledby="invite-title">
          <h2 id="invite-title">Invite somebody</h2>
          <InviteForm
            onInvite={async (role, email) => {
              setMade(await send<NewInvitation>('POST', INVITATIONS, { role, ...(email !== '' && { email }) }));
              refresh();
            }}
          />
        </section>
      </Allowed>
      {may('owner') && <Open />}
    </>
  );
}

function Row({ of: member }: { of: Member }) {
  const { tz } = pageLocation.value;
  const [role, setRole] = useState<Person['role']>(member.role);
  const change = useAction(async () => {
    await send('PATCH', `${MEMBERS}/${member.userId}`, { role });
    refresh();
  });
  const remove = useAction(async () => {
    await send('DELETE', `${MEMBERS}/${member.userId}`);
    refresh();
  });
  const name = member.name ?? member.email ?? (member.isLoginLink ? 'Whoever has a login link' : member.userId);
  return (
    <tr>
      <th scope="row" class="name">
        {name} {member.isOwn && <span class="soft">(you)</span>}
        {member.name && member.email && <small>{member.email}</small>}
      </th>
      <td>
        {member.role}
        <small>{ROLES[member.role]}</small>
      </td>
      <td data-label="Since: ">{date(Date.parse(member.since), tz)}</td>
      <td>
        <Allowed needs="owner" to="" quiet>
          <div class="actions">
            <Confirm label="Change role" of={name} yes="Give this role" action={change}>
              <RolePick value={role} onPick={setRole} />
            </Confirm>
            <Confirm label="Remove" of={name} yes="Remove them" action={remove}>
              They are signed out at once. API keys that they made continue to work: replace those whose text they have.
            </Confirm>
          </div>
        </Allowed>
      </td>
    </tr>
  );
}

function Open() {
  const asked = useAsk('invitations', (signal) => get<Invitations>(INVITATIONS, signal));
  return (
    <Panel id="invitations" title="Open invitations" asked={asked} rows={1}>
      {({ invitations }) =>
        invitations.length === 0 ? (
          <p class="empty">None.</p>
        ) : (
          <ul class="plain">
            {invitations.map((one) => (
              <InvitationRow key={one.invitationId} of={one} />
            ))}
          </ul>
        )
      }
    </Panel>
  );
}

function InvitationRow({ of: invitation }: { of: Invitation }) {
  const { tz } = pageLocation.value;
  const name = invitation.email ?? 'by a link';
  const withdraw = useAction(async () => {
    await send('DELETE', `${INVITATIONS}/${invitation.invitationId}`);
    refresh();
  });
  return (
    <li>
      {name}, as {invitation.role}, until {dateTime(Date.parse(invitation.expiresAt), tz)}{' '}
      <Confirm label="Withdraw" of={name} yes="Withdraw it" action={withdraw}>
        Its link ends at once.
      </Confirm>
    </li>
  );
}
