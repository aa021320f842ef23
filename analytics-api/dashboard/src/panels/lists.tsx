// The lists of the overview and of the pages of one title or service.

import type { LiveReceipt } from '../api/answers';
import { address, type Filter, receipts, refusals } from '../api/questions';
import { useAsk } from '../ask';
import { count, dateTime, words } from '../format';
import { type List, linkTo, listView, pageLocation } from '../location';
import type { Chosen } from './chosen';
import { csvOf, LISTED, linkToService } from './listed';
import { Panel } from './Panel';
import { Ranking } from './Ranking';
import { Badge } from './Trust';

const ROWS = 8;
/** Rows that one request of CSV is for. */
const CSV_REFUSALS = 1_000;
const CSV_RECEIPTS = 10_000;
export const NOTHING = 'No uses in this range.';

/** The first rows of a list, and the way to all of them. */
export function Top({ list, title, chosen }: { list: List; title: string; chosen: Chosen }) {
  const listed = LISTED[list];
  const { query, location } = chosen;
  const asked = useAsk(JSON.stringify(query), (signal) => listed.ask({ ...query, limit: ROWS }, location.tz, signal));
  // There is room for one more column.
  const others = listed.others.slice(0, 1).filter(({ sort }) => sort !== 'lastSeen');
  return (
    <Panel
      id={list}
      title={title}
      help={listed.help}
      asked={asked}
      rows={ROWS}
      csv={({ total }) => csvOf(listed, query, total)}
    >
      {(data) => (
        <>
          <Ranking
            caption={`${listed.title}, most used first`}
            name={listed.name}
            others={others}
            rows={data.rows}
            empty={NOTHING}
          />
          <All list={list} total={data.total} />
        </>
      )}
    </Panel>
  );
}

/** A link to all rows of a list, of everything or of the title or service on show. */
export function All({ list, total }: { list: List; total: number }) {
  if (total === 0) return null;
  const { view } = pageLocation.value;
  const of = view.name === 'content' || view.name === 'service' ? view : null;
  const [one, many] = LISTED[list].nouns;
  return (
    <p class="more">
      <a href={linkTo({ view: listView(list, of) })}>
        {total === 1 ? `The ${one}` : `All ${count(total)} ${many}`} <span aria-hidden="true">→</span>
      </a>
    </p>
  );
}

export function Refusals({ chosen }: { chosen: Chosen }) {
  // What is refused has neither purpose nor model that could be relied on.
  const { from, to, tz: zone, domain } = chosen.query;
  const query = { from, to, tz: zone, domain };
  const asked = useAsk(JSON.stringify(query), (signal) => refusals({ ...query, limit: 3 }, signal));
  const { tz } = chosen.location;
  return (
    <Panel
      id="refusals"
      title="Rejected"
      help="Reports that failed a check. They count nowhere."
      asked={asked}
      rows={ROWS}
      csv={() => address('/refusals', { ...query, limit: CSV_REFUSALS })}
    >
      {(data) => (
        <>
          <Unfiltered what="Counted by arrival" />
          <Ranking
            caption="Rejected reports by reason"
            name={{ text: 'Reason' }}
            counted="Rejected"
            rows={Object.entries(data.byReason).map(([reason, number]) => ({
              key: reason,
              name: words(reason),
              count: number,
            }))}
            all={data.totalRefused}
            empty="Nothing was rejected in this range."
          />
          {data.newest.length > 0 && (
            <>
              <h3>Newest</h3>
              <ul class="newest">
                {data.newest.map((refused) => (
                  <li key={`${refused.requestId} ${refused.receiptId} ${refused.receivedAt}`}>
                    <time dateTime={refused.receivedAt} title={dateTime(Date.parse(refused.receivedAt), tz)}>
                      {dateTime(Date.parse(refused.receivedAt), tz)}
                    </time>
                    <span>{words(refused.reason)}</span>
                    <small title={refused.detail}>{refused.detail}</small>
                  </li>
                ))}
              </ul>
            </>
          )}
        </>
      )}
    </Panel>
  );
}

/** Says that filters of what receipts state don't apply here. */
export function Unfiltered({ what }: { what: string }) {
  const { purpose, modelId, trust, operator } = pageLocation.value;
  if (!purpose && !modelId && !trust && !operator) return null;
  return <p class="note">{what}, of every purpose, model, operator and trust: those filters don’t apply here.</p>;
}

/** The newest receipts of one entry, by whom; or of one client, of what. */
export function NewestReceipts({ chosen, filter }: { chosen: Chosen; filter: Filter }) {
  const query = { ...chosen.query, ...filter };
  const asked = useAsk(JSON.stringify(query), (signal) => receipts({ ...query, limit: ROWS }, signal));
  const { tz } = chosen.location;
  return (
    <Panel
      id="used"
      title="Newest uses"
      asked={asked}
      rows={ROWS}
      csv={() => address('/receipts', { ...query, limit: CSV_RECEIPTS })}
    >
      {(data) =>
        data.receipts.length === 0 ? (
          <p class="empty">{NOTHING}</p>
        ) : (
          <ol class="uses">
            {data.receipts.map((receipt) => (
              <li key={`${receipt.receiptId} ${receipt.payloadHash}`}>
                <time dateTime={receipt.timestamp}>{dateTime(Date.parse(receipt.timestamp), tz)}</time>
                {filter.entryId ? <Who receipt={receipt} /> : <What receipt={receipt} />}
                <Use receipt={receipt} by={receipt.modelId} />
              </li>
            ))}
          </ol>
        )
      }
    </Panel>
  );
}

/** For what and by what a receipt was used, and whether it is proven. */
export function Use({ receipt, by }: { receipt: LiveReceipt; by: string | null }) {
  return (
    <small class="line">
      <Badge trust={receipt.trust} />
      <span>
        <i class={`swatch ${receipt.purpose}`} />
        {receipt.purpose}
      </span>
      {by && (
        <span class="cut" title={by}>
          {by}
        </span>
      )}
    </small>
  );
}

function Who({ receipt }: { receipt: LiveReceipt }) {
  if (!receipt.clientId) return <span>Erased</span>;
  return (
    <a class="cut" href={linkToService(receipt.clientId, receipt)} title={receipt.clientName ?? ''}>
      {receipt.clientName || receipt.clientId}
    </a>
  );
}

function What({ receipt }: { receipt: LiveReceipt }) {
  return (
    <a class="cut" href={linkTo({ view: { name: 'content', id: receipt.entryId } })} title={receipt.title}>
      {receipt.title}
    </a>
  );
}
