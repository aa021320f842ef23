// Months: each one as a file, for accounting and as evidence.

import { serverNow } from '../clock';
import { monthYear } from '../format';
import { pageLocation } from '../location';
import { dayOf } from '../ranges';
import { withQuery } from './api';
import { ACTIONS, Things } from './Things';

const MONTHS = 12;

export function Months() {
  const { tz } = pageLocation.value;
  const [year = 0, month = 0] = dayOf(serverNow(), tz).split('-').map(Number);
  const firstDays = Array.from({ length: MONTHS }, (_, back) => Date.UTC(year, month - 1 - back));
  return (
    <>
      <p class="lede">
        A month as one ZIP file: its totals, a table of uses by article and AI service for spreadsheets, and the signed
        receipt of each use with its evidence.
      </p>
      <section class="panel" aria-labelledby="months-title">
        <h2 id="months-title">Last {MONTHS} months</h2>
        <Things headings={['Month', 'State', ACTIONS]}>
          {firstDays.map((firstDay, back) => (
            <Row key={firstDay} firstDay={firstDay} tz={tz} isCurrent={back === 0} />
          ))}
        </Things>
        <p class="note">
          AI services may report a use up to 30 days later: a month that you download again can have more. Months begin
          and end by the clock of {tz}.
        </p>
      </section>
    </>
  );
}

function Row({ firstDay, tz, isCurrent }: { firstDay: number; tz: string; isCurrent: boolean }) {
  const month = dayOf(firstDay, 'UTC').slice(0, 7);
  const name = monthYear(firstDay, 'UTC');
  return (
    <tr>
      <th scope="row" class="name">
        {name}
      </th>
      <td>{isCurrent ? 'so far' : 'over'}</td>
      <td>
        <a
          class="button"
          href={withQuery(`/api/v1/analytics/months/${month}`, { tz })}
          aria-label={`Download: ${name}`}
          download
        >
          Download
        </a>
      </td>
    </tr>
  );
}
