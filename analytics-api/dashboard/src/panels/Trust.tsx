// Proven and unproven: whether the key of a receipt was an operator's when the receipt arrived.

import type { ByTrust, Signer } from '../api/answers';
import { count } from '../format';
import { linkTo, place } from '../place';

/** Who signed, in few words: the operator, or the beginning of the key of none. */
export const signerText = (signer: Signer): string => {
  const key = signer.keyFingerprint?.slice(0, 8);
  if (signer.operator) return `${signer.trust}: ${signer.operator}`;
  return (key ? `unproven · key ${key}` : 'unproven') + claimText(signer);
};

/** Who else claims the client's ID; empty if nobody does. */
export const claimText = (signer: Signer): string =>
  signer.clientIdClaimedBy ? ` · ID claimed by ${signer.clientIdClaimedBy.join(', ')}` : '';

export function Badge({ trust }: { trust: string }) {
  return <span class={`trust ${trust}`}>{trust}</span>;
}

/** The other part of a headline, with a link to it alone. */
export function OtherPart({ receipts, shown }: { receipts: ByTrust; shown: 'proven' | 'unproven' }) {
  const other = shown === 'proven' ? 'unproven' : 'proven';
  if (place.value.trust || receipts[other] === 0) return null;
  return (
    <>
      {' '}
      Beside them are <a href={linkTo({ trust: other })}>{`${count(receipts[other])} ${other} receipts`}</a>
      {other === 'unproven' && ', whose senders haven’t proven who they are'}.
    </>
  );
}

/**
 * Receipts that the totals leave out, because anybody could have sent them for a domain without an
 * owner.
 */
export function BeforeVerification({ receipts }: { receipts: number }) {
  if (receipts === 0) return null;
  const they = receipts === 1 ? '1 receipt that' : `${count(receipts)} receipts that`;
  return <> {they} arrived before the domain was first verified aren’t counted.</>;
}
