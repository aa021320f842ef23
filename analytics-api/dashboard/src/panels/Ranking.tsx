// A table of what was counted most: name, bar, number, share.

import type { ComponentChildren } from 'preact';
import { count, share } from '../format';
import { Badge, ProvenBar } from './Trust';

export interface Ranked {
  key: string;
  name: string;
  /** Below the name, smaller. */
  note?: string;
  /** Whether its signer has proven who it is. */
  trust?: string;
  href?: string;
  count: number;
  /** Receipts among them that are proven; nothing where that isn't a question. */
  proven?: number;
  /** Another number of it, in its own column. */
  second?: number;
}

interface Props {
  caption: string;
  nameHeading: string;
  countHeading?: string;
  secondHeading?: string;
  rows: Ranked[];
  /** How many there are, of which `rows` are the first. */
  total?: number;
  /** What shares are of. */
  all: number | null;
  empty: ComponentChildren;
}

export function Ranking({
  caption,
  nameHeading,
  countHeading = 'Receipts',
  secondHeading,
  rows,
  total,
  all,
  empty,
}: Props) {
  if (rows.length === 0) return <p class="empty">{empty}</p>;
  const most = Math.max(1, ...rows.map((row) => row.count));
  const digits = Math.max(...rows.map((row) => count(Math.max(row.count, row.second ?? 0)).length));
  return (
    <>
      <table class="ranking" style={{ '--digits': digits }}>
        <caption class="unseen">{caption}</caption>
        <thead>
          <tr>
            <th scope="col">{nameHeading}</th>
            {secondHeading && (
              <th scope="col" class="number wide">
                {secondHeading}
              </th>
            )}
            <th scope="col" class="number">
              {countHeading}
            </th>
            {all !== null && (
              <th scope="col" class="number share">
                Share
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.key}>
              <th scope="row">
                <Name row={row} />
                <div class="bar" style={{ '--part': row.count / most }}>
                  <ProvenBar proven={row.proven ?? row.count} all={row.count} />
                </div>
              </th>
              {secondHeading && <td class="number wide">{row.second === undefined ? '–' : count(row.second)}</td>}
              <td class="number">
                {count(row.count)}
                {row.proven !== undefined && (
                  <small title={`${count(row.proven)} proven`}>{share(row.proven, row.count)} proven</small>
                )}
              </td>
              {all !== null && <td class="number share soft">{share(row.count, all)}</td>}
            </tr>
          ))}
        </tbody>
      </table>
      {total !== undefined && total > rows.length && (
        <p class="note more">
          The first {count(rows.length)} of {count(total)}.
        </p>
      )}
    </>
  );
}

function Name({ row: { name, href, trust, note } }: { row: Ranked }) {
  return (
    <>
      {href ? (
        <a class="cut" href={href} title={name}>
          {name}
        </a>
      ) : (
        <span class="cut" title={name}>
          {name}
        </span>
      )}
      {(trust || note) && (
        <small class="line">
          {trust && <Badge trust={trust} />}
          {note && (
            <span class="cut" title={note}>
              {note}
            </span>
          )}
        </small>
      )}
    </>
  );
}
