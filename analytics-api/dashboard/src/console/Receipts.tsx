// Receipts one by one, each with its evidence.

import { useState } from 'preact/hooks';
import { useAsk } from '../ask';
import { dateTime } from '../format';
import { consolePath, linkTo, pageLocation } from '../location';
import { Use } from '../panels/lists';
import { Panel } from '../panels/Panel';
import type { Receipts as ReceiptList } from './answers';
import { get, withQuery } from './api';
import { EvidenceView, RECEIPTS } from './Evidence';
import { Pages, usePages } from './Pages';
import { Things } from './Things';

const PAGE = 25;

export function Receipts() {
  const id = consolePath.value?.slice(RECEIPTS.length + 1);
  return id ? <EvidenceView receiptId={id} /> : <List />;
}

function List() {
  const { tz } = pageLocation.value;
  const pages = usePages();
  const path = withQuery('/api/v1/analytics/receipts', { limit: PAGE, cursor: pages.cursor });
  const asked = useAsk(path, (signal) => get<ReceiptList>(path, signal));
  return (
    <>
      <p class="lede">
        Each receipt is signed by whoever used your content. Its evidence is the signature itself: anybody can check it,
        without this service.
      </p>
      <ById />
      <Panel id="receipts" title="Newest receipts" asked={asked} rows={10}>
        {({ receipts, nextCursor }) => (
          <>
            <Things
              headings={['Content', 'Used by', 'When', { text: 'Evidence', as: 'unseen' }]}
              empty="No receipts yet."
            >
              {receipts.map((receipt) => (
                <tr key={`${receipt.receiptId} ${receipt.payloadHash}`}>
                  <th scope="row" class="name">
                    <a href={linkTo({ view: { name: 'content', id: receipt.entryId } })}>{receipt.title}</a>
                  </th>
                  <td class="name">
                    {receipt.clientName ?? receipt.clientId ?? 'Erased'}
                    <Use receipt={receipt} by={receipt.operator ?? null} />
                  </td>
                  <td>{dateTime(Date.parse(receipt.timestamp), tz)}</td>
                  <td>
                    <a href={`#${RECEIPTS}/${receipt.receiptId}`} aria-label={`Evidence: ${receipt.receiptId}`}>
                      Evidence
                    </a>
                  </td>
                </tr>
              ))}
            </Things>
            <Pages pages={pages} next={nextCursor} of="receipts" />
          </>
        )}
      </Panel>
    </>
  );
}

function ById() {
  const [id, setId] = useState('');
  return (
    <search>
      <form
        class="fields"
        onSubmit={(event) => {
          event.preventDefault();
          location.hash = `#${RECEIPTS}/${encodeURIComponent(id.trim().toLowerCase())}`;
        }}
      >
        <label class="pick wide-field">
          <span>Receipt ID</span>
          <input
            type="text"
            required
            pattern="\s*[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\s*"
            title="A UUID, as 0192f0c1-d2e3-7a4b-8c5d-6e7f80911223"
            autocomplete="off"
            spellcheck={false}
            value={id}
            onInput={(event) => setId(event.currentTarget.value)}
          />
        </label>
        <button type="submit">Show its evidence</button>
      </form>
    </search>
  );
}
