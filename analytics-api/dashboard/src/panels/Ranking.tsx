// A table of what was counted most: name, bar, number, share.

import type { ComponentChildren } from 'preact';
import { count, share } from '../format';
import type { Heading } from './listed';
import { Narrow } from './Narrow';
import { Badge, ProvenBar } from './Trust';

export interface Ranked {
  key: string;
  name: string;
  /** Below the name, smaller. */
  note?: string;
  /** Whether its signer has proven who it is. */
  trust?: string;
  href?: string;
  /** Whether the link narrows the selection, instead of leading to a page. */
  narrows?: boolean;
  count: number;
  /** Receipts among them that are proven; nothing where that isn't a question. */
  proven?: number;
  /** Its cells between name and count: numbers, or texts. */
  others?: (number | string)[];
}

/** The order of a table whose headings choose it. */
export interface Order {
  sort: string;
  linkTo: (sort: string) => string;
}

interface Props {
  caption: string;
  name: Heading;
  others?: Heading[];
  counted?: string;
  rows: Ranked[];
  order?: Order;
  /** What shares are of. */
  all?: number | null;
  empty: ComponentChildren;
}

export function Ranking({ caption, name, others = [], counted = 'Uses', rows, order, all = null, empty }: Props) {
  if (rows.length === 0) return <p class="empty">{empty}</p>;
  const most = Math.max(1, ...rows.map((row) => row.count));
  const numbers = rows.flatMap((row) => [row.count, ...(row.others ?? [])]).filter((cell) => typeof cell === 'number');
  const digits = Math.max(...numbers.map((cell) => count(cell).length));
  return (
    <table class="ranking" style={{ '--digits': digits }}>
      <caption class="unseen">{caption}</caption>
      <thead>
        <tr>
          <Head of={name} order={order} />
          {others.map((other) => (
            <Head key={other.text} of={other} order={order} kind="number wide" />
          ))}
          <Head of={{ text: counted, sort: 'receiptCount' }} order={order} kind="number" />
          {all !== null && <Head of={{ text: 'Share' }} kind="number share" />}
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
            {others.map(({ text }, at) => {
              const cell = row.others?.[at];
              return (
                <td key={text} class="number wide">
                  {typeof cell === 'number' ? count(cell) : cell}
                </td>
              );
            })}
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
  );
}

/** A heading; where it is a link, to the list in its order, or in the opposite one. */
function Head({ of: { text, sort }, order, kind }: { of: Heading; order?: Order | undefined; kind?: string }) {
  if (!sort || !order)
    return (
      <th scope="col" class={kind}>
        {text}
      </th>
    );
  const isText = sort === 'name' || sort === 'modelId' || sort === 'operator';
  const directions = isText ? [sort, `-${sort}`] : [`-${sort}`, sort];
  const isNow = directions.includes(order.sort);
  const next = order.sort === directions[0] ? directions[1] : directions[0];
  const isUp = order.sort === sort;
  return (
    <th scope="col" class={kind} aria-sort={isNow ? (isUp ? 'ascending' : 'descending') : undefined}>
      <a class="sort" href={order.linkTo(next ?? sort)} title={`Sort by ${text.toLowerCase()}`}>
        {text} <i aria-hidden="true">{isNow ? (isUp ? '↑' : '↓') : ''}</i>
      </a>
    </th>
  );
}

function Name({ row: { name, href, narrows, trust, note } }: { row: Ranked }) {
  return (
    <>
      {href && narrows ? (
        <Narrow href={href} name={name} />
      ) : href ? (
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
