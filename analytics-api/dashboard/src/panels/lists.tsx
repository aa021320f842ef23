// The lists: top content, top clients, models, refusals.

import type { ClientCount, ContentCount, LiveReceipt, ModelUsage, Signer } from '../api/answers';
import { address, clients, contents, type Filter, models, receipts, refusals } from '../api/questions';
import { useAsk } from '../ask';
import { dateTime, words } from '../format';
import { linkTo, pageLocation } from '../location';
import type { Chosen } from './chosen';
import { Panel } from './Panel';
import { type Ranked, Ranking } from './Ranking';
import { Badge, signerText } from './Trust';

const ROWS = 8;
/** What a download asks for: as many as the API gives at once. */
export const CSV_ROWS = 100;
const CSV_RECEIPTS = 10_000;
const NOTHING = 'No receipts in this range.';

export function TopContent({ chosen }: { chosen: Chosen }) {
  const { query } = chosen;
  const asked = useAsk(JSON.stringify(query), (signal) => contents({ ...query, limit: ROWS }, signal));
  return (
    <Panel
      id="content"
      title="Top content"
      asked={asked}
      rows={ROWS}
      csv={address('/content', { ...query, limit: CSV_ROWS })}
      csvRows={({ totalContent: all }) => ({ max: CSV_ROWS, all })}
    >
      {(data) => (
        <Ranking
          caption="Entries by receipts"
          nameHeading="Entry"
          secondHeading="Clients"
          rows={data.content.map((entry) => ({ ...rankedEntry(entry), second: entry.uniqueClients }))}
          total={data.totalContent}
          all={null}
          empty={NOTHING}
        />
      )}
    </Panel>
  );
}

export function TopClients({ chosen }: { chosen: Chosen }) {
  const { query } = chosen;
  const asked = useAsk(JSON.stringify(query), (signal) => clients({ ...query, limit: ROWS }, signal));
  return (
    <Panel
      id="clients"
      title="Top clients"
      asked={asked}
      rows={ROWS}
      csv={address('/clients', { ...query, limit: CSV_ROWS })}
      csvRows={({ totalClients: all }) => ({ max: CSV_ROWS, all })}
    >
      {(data) => (
        <Ranking
          caption="Clients by receipts"
          nameHeading="Client"
          rows={data.clients.map(rankedClient)}
          total={data.totalClients}
          all={null}
          empty={NOTHING}
        />
      )}
    </Panel>
  );
}

export function Models({ chosen }: { chosen: Chosen }) {
  const query = chosen.query;
  const asked = useAsk(JSON.stringify(query), (signal) => models({ ...query, limit: ROWS }, signal));
  const rows = (list: ModelUsage[]): Ranked[] =>
    list.map((model) => ({
      key: model.modelId ?? '',
      name: model.modelId ?? 'No model named',
      count: model.receiptCount,
      proven: model.byTrust.proven,
      second: model.uniqueClients,
      ...(model.modelId && { href: linkTo({ modelId: model.modelId }) }),
    }));
  return (
    <Panel
      id="models"
      title="By model"
      asked={asked}
      rows={ROWS}
      csv={address('/models', { ...query, limit: CSV_ROWS })}
      csvRows={({ totalModels: all }) => ({ max: CSV_ROWS, all })}
    >
      {(data) => (
        <Ranking
          caption="Models by receipts"
          nameHeading="Model"
          secondHeading="Clients"
          rows={rows(data.models)}
          total={data.totalModels}
          all={null}
          empty={NOTHING}
        />
      )}
    </Panel>
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
      title="Refusals"
      asked={asked}
      rows={ROWS}
      csv={address('/refusals', { ...query, limit: CSV_ROWS })}
      csvRows={({ totalRefused: all }) => ({ max: CSV_ROWS, all })}
    >
      {(data) => (
        <>
          <Unfiltered what="Counted by arrival" />
          <Ranking
            caption="Refused receipts by reason"
            nameHeading="Reason"
            countHeading="Refused"
            rows={Object.entries(data.byReason).map(([reason, number]) => ({
              key: reason,
              name: words(reason),
              count: number,
            }))}
            all={data.totalRefused}
            empty="Nothing was refused in this range."
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
  const { purpose, modelId, trust } = pageLocation.value;
  if (!purpose && !modelId && !trust) return null;
  return <p class="note">{what}, of every purpose, model and trust: those filters don’t apply here.</p>;
}

/** The newest receipts of one entry, by whom; or of one client, of what. There are `all`. */
export function NewestReceipts({ chosen, filter, all }: { chosen: Chosen; filter: Filter; all: number }) {
  const query = { ...chosen.query, ...filter };
  const asked = useAsk(JSON.stringify(query), (signal) => receipts({ ...query, limit: ROWS }, signal));
  const { tz } = chosen.location;
  return (
    <Panel
      id="used"
      title="Newest receipts"
      asked={asked}
      rows={ROWS}
      csv={address('/receipts', { ...query, limit: CSV_RECEIPTS })}
      csvRows={() => ({ max: CSV_RECEIPTS, all })}
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
    <a class="cut" href={linkToClient(receipt.clientId, receipt)} title={receipt.clientName ?? ''}>
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

export const rankedEntry = (entry: ContentCount): Ranked => ({
  key: entry.entryId,
  name: entry.title || entry.url || entry.entryId,
  count: entry.receiptCount,
  proven: entry.byTrust.proven,
  href: linkTo({ view: { name: 'content', id: entry.entryId } }),
  ...(entry.title !== entry.url && entry.url && { note: bare(entry.url) }),
});

export const rankedClient = (client: ClientCount): Ranked => ({
  key: `${client.clientId} ${client.keyFingerprint}`,
  name: client.name || client.clientId,
  trust: client.trust,
  note: [signerText(client), client.organization].filter(Boolean).join(' · '),
  count: client.receiptCount,
  proven: client.byTrust.proven,
  href: linkToClient(client.clientId, client),
});

/** To the client alone: others may use its ID with keys of their own. */
const linkToClient = (id: string, { keyFingerprint }: Signer): string =>
  linkTo({ view: { name: 'client', id, fingerprint: keyFingerprint } });

/** A URL without its scheme, for reading. */
export const bare = (url: string): string => url.replace(/^https?:\/\//, '');
