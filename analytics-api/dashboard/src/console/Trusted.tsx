// The companies that the account trusts: only their uses are proven, or every company's.

import { useState } from 'preact/hooks';
import { refresh, useAsk } from '../ask';
import { Panel } from '../panels/Panel';
import { Allowed, may, useAction } from './Action';
import { ActionForm } from './ActionForm';
import type { TrustedOperators } from './answers';
import { get, send } from './api';
import { Confirm } from './Confirm';
import { DomainField } from './DomainField';
import { ACTIONS, Things } from './Things';

const PATH = '/api/v1/operators/trusted';

/** Changes the list as it is now: somebody else may have changed it since it was shown. */
async function change(next: (operators: string[]) => string[]): Promise<void> {
  const { operators } = await get<TrustedOperators>(PATH);
  await send('PUT', PATH, { operators: next(operators) });
  refresh();
}

export function Trusted() {
  const asked = useAsk('trusted', (signal) => get<TrustedOperators>(PATH, signal));
  return (
    <Panel id="trusted" title="Companies you trust" asked={asked} rows={2}>
      {({ operators }) => (
        <>
          <p class="soft">
            {operators.length === 0
              ? 'Every company that has proven its domain. If you choose some, the uses of all others are unproven, past ones too.'
              : 'Only uses of these companies are proven, past ones too.'}
          </p>
          {operators.length > 0 && (
            <Things headings={['Company', ...(may('editor') ? [ACTIONS] : [])]}>
              {operators.map((operator) => (
                <Row key={operator} operator={operator} isLast={operators.length === 1} />
              ))}
            </Things>
          )}
          <Allowed needs="editor" to="choose the companies that the account trusts">
            <Form />
          </Allowed>
        </>
      )}
    </Panel>
  );
}

function Row({ operator, isLast }: { operator: string; isLast: boolean }) {
  const remove = useAction(() => change((operators) => operators.filter((one) => one !== operator)));
  return (
    <tr>
      <th scope="row" class="name">
        {operator}
      </th>
      {may('editor') && (
        <td>
          <div class="actions">
            <Confirm label="Remove" of={operator} yes="Remove it from the list" action={remove}>
              {isLast
                ? 'The list is empty then: uses of every company that has proven its domain are proven.'
                : 'Its uses are unproven then, past ones too.'}
            </Confirm>
          </div>
        </td>
      )}
    </tr>
  );
}

function Form() {
  const [domain, setDomain] = useState('');
  const add = useAction(async () => {
    await change((operators) => [...operators, domain.trim()]);
    setDomain('');
  });
  return (
    <ActionForm action={add} submit="Trust this company">
      <DomainField name="Domain of a company" maxLength={253} value={domain} onType={setDomain} />
    </ActionForm>
  );
}
