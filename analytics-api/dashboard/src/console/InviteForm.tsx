// Whom an invitation goes to, and with which role.

import { useState } from 'preact/hooks';
import type { Person } from '../session';
import { useAction } from './Action';
import { ActionForm } from './ActionForm';
import { Select } from './Select';

type Role = Person['role'];

export const ROLES: Record<Role, string> = {
  reader: 'sees the numbers',
  editor: 'also changes domains and the catalogue',
  owner: 'also keys, members and erasures',
};

export function RolePick({ value, onPick }: { value: Role; onPick: (role: Role) => void }) {
  const options = (Object.keys(ROLES) as Role[]).map((role) => [role, `${role}: ${ROLES[role]}`] as const);
  return <Select name="Role" value={value} options={options} onSelect={onPick} />;
}

/** Without an address the invitation is a link, which the owner hands over. */
export function InviteForm({ onInvite }: { onInvite: (role: Role, email: string) => Promise<void> }) {
  const [role, setRole] = useState<Role>('reader');
  const [email, setEmail] = useState('');
  const action = useAction(async () => {
    await onInvite(role, email.trim());
    setEmail('');
  });
  return (
    <ActionForm action={action} submit="Invite">
      <label class="pick wide-field">
        <span>E-mail address, or nothing for a link to hand over</span>
        <input
          type="email"
          maxLength={254}
          placeholder="bert@example.com"
          autocomplete="off"
          value={email}
          onInput={(event) => setEmail(event.currentTarget.value)}
        />
      </label>
      <RolePick value={role} onPick={setRole} />
    </ActionForm>
  );
}
