// Rejected receipts: why, from whom, and what that means.

import { useState } from 'preact/hooks';
import { useAsk } from '../ask';
import { count, dateTime, words } from '../format';
import { pageLocation } from '../location';
import { Panel } from '../panels/Panel';
import type { Rejected as Rejections, Services } from './answers';
import { get, withQuery } from './api';
import { Things } from './Things';

const SHOWN = 25;

const REASONS: Record<string, string> = {
  malformed: 'It isn’t written as a receipt must be.',
  bad_signature: 'The signature doesn’t fit: it was changed on the way, or signed wrongly.',
  bad_batch_signature: 'The batch that it came in isn’t signed properly.',
  batch_abandoned: 'Too many others in its batch were bad, so it wasn’t checked.',
  bad_request_signature: 'The request that brought it isn’t signed properly.',
  bad_public_key: 'It has no usable key.',
  key_algorithm_mismatch: 'Its key isn’t of the kind that it names.',
  bad_content_hash: 'The hash of the content isn’t one.',
  timestamp_out_of_range: 'It states a time too long ago, or in the future.',
  unsupported_version: 'It is of another version of the format.',
  unsupported_algorithm: 'It is signed in a way that isn’t supported.',
  refused_by_warehouse: 'It was good, and couldn’t be stored: tell whoever runs this service.',
  client_key_unknown: 'Its key isn’t registered for the service that it names.',
  client_key_revoked: 'Its key had been taken back.',
  entry_unknown: 'It names content that nobody lists.',
};

export function Rejected() {
  const [reason, setReason] = useState('');
  const path = withQuery('/api/v1/analytics/refusals', { limit: SHOWN, reason });
  const asked = useAsk(path, (signal) => get<Rejections>(path, signal));
  const names = useAsk('names of services', (signal) =>
    get<Services>('/api/v1/analytics/clients?limit=100&beforeVerification=include', signal),
  );
  const nameOf = (id: string | null) => names.data?.clients.find((one) => one.clientId === id)?.name || id;
  const { tz } = pageLocation.value;
  return (
    <>
      <p class="lede">
        Receipts that name your domains and didn’t pass the checks. They aren’t in your numbers. Senders see the same
        reasons, with what to change.
      </p>
      <Panel id="reasons" title="Why" asked={asked} rows={4}>
        {({ byReason, totalRefused }) => (
          <>
            {totalRefused === 0 && !reason && <p class="empty">None was rejected.</p>}
            {(totalRefused > 0 || reason) && (
              <Things headings={['Reason', { text: 'Receipts', as: 'number' }]}>
                {Object.entries(byReason).map(([name, receipts]) => (
                  <tr key={name}>
                    <th scope="row" class="name">
                      <button
                        type="button"
                        class="quiet"
                        aria-pressed={reason === name}
                        onClick={() => setReason(reason === name ? '' : name)}
                      >
                        {words(name)}
                      </button>
                      <small>{REASONS[name] ?? ''}</small>
                    </th>
                    <td class="number" data-label="Receipts: ">
                      {count(receipts)}
                    </td>
                  </tr>
                ))}
              </Things>
            )}
          </>
        )}
      </Panel>
      <Panel id="senders" title="From which AI service" asked={asked} rows={4}>
        {({ byClient }) => (
          <>
            {byClient.length > 0 && <p class="note">As the receipts state it, which isn’t proven.</p>}
            <Things headings={['AI service', { text: 'Receipts', as: 'number' }]} empty="None.">
              {byClient.map(({ clientId, refusals }) => (
                <tr key={clientId}>
                  <th scope="row" class="name">
                    {nameOf(clientId) ?? 'It couldn’t be read'}
                  </th>
                  <td class="number" data-label="Receipts: ">
                    {count(refusals)}
                  </td>
                </tr>
              ))}
            </Things>
          </>
        )}
      </Panel>
      <Panel id="rejected" title="Newest" asked={asked} rows={8}>
        {({ newest }) =>
          newest.length === 0 ? (
            <p class="empty">None.</p>
          ) : (
            <ul class="newest">
              {newest.map((one) => (
                <li key={`${one.requestId} ${one.receiptId} ${one.receivedAt}`}>
                  <time dateTime={one.receivedAt}>{dateTime(Date.parse(one.receivedAt), tz)}</time>
                  <span>
                    {words(one.reason)}
                    {one.clientId && ` · ${nameOf(one.clientId)}`}
                  </span>
                  <small>{one.detail}</small>
                </li>
              ))}
            </ul>
          )
        }
      </Panel>
    </>
  );
}
