// The evidence of a receipt, the command that checks it, and a file to keep.

import { useAsk } from '../ask';
import { dateTime } from '../format';
import { pageLocation } from '../location';
import { Panel } from '../panels/Panel';
import type { Evidence } from './answers';
import { get } from './api';
import { Copy } from './Copy';

/** Where receipts are, and below it the evidence of each. */
export const RECEIPTS = '/settings/receipts';

export function EvidenceView({ receiptId }: { receiptId: string }) {
  const path = `/api/v1/receipts/${receiptId}/evidence`;
  const asked = useAsk(path, (signal) => get<Evidence>(path, signal));
  const { data } = asked;
  return (
    <>
      <p class="back">
        <a href={`#${RECEIPTS}`}>All receipts</a>
      </p>
      <p class="code">{decodeURIComponent(receiptId)}</p>
      <Panel
        id="evidence"
        title="Evidence"
        asked={asked}
        rows={6}
        actions={
          data && (
            <button type="button" class="quiet" onClick={() => saveEvidence(data)}>
              Download
            </button>
          )
        }
      >
        {(evidence) => (
          <>
            {evidence.evidence.length > 1 && (
              <p class="warning">
                {evidence.evidence.length} different receipts carry this ID: each has evidence of its own.
              </p>
            )}
            {evidence.evidence.map((one) => (
              <Payload key={one.payloadHash + one.keyFingerprint} of={one} />
            ))}
          </>
        )}
      </Panel>
    </>
  );
}

function Payload({ of: evidence }: { of: Evidence['evidence'][number] }) {
  const { tz } = pageLocation.value;
  return (
    <article>
      <dl class="pairs">
        <dt>Received</dt>
        <dd>{dateTime(Date.parse(evidence.receivedAt), tz)}</dd>
        <dt>Publisher</dt>
        <dd>{evidence.publisher}</dd>
        <dt>Signed with</dt>
        <dd>
          {evidence.signatureAlgorithm}, key <span class="code">{evidence.keyFingerprint}</span>
        </dd>
        <dt>Hash of what is signed</dt>
        <dd class="code">{evidence.payloadHash}</dd>
        {evidence.batch && (
          <>
            <dt>Hash of its batch</dt>
            <dd class="code">{evidence.batch.payloadHash}</dd>
          </>
        )}
      </dl>
      <h3>Check it yourself</h3>
      <p class="soft">
        This command needs OpenSSL 3 and nothing else. It prints “Signature Verified Successfully”, on any computer.
      </p>
      <Copy label="Command" text={evidence.opensslCommand} lines={8} />
      <h3>What was signed</h3>
      <Copy label="Signed text" text={fromBase64(evidence.signedBytes)} lines={8} />
    </article>
  );
}

function fromBase64(text: string): string {
  const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  return new TextDecoder().decode(bytes);
}

/** `receipts verify` reads this file. */
function saveEvidence(evidence: Evidence): void {
  const url = URL.createObjectURL(new Blob([JSON.stringify(evidence, null, 2)], { type: 'application/json' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = `evidence-${evidence.receiptId}.json`;
  link.click();
  // The download has its own hold on the bytes once it has begun.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
