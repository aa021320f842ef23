// Proven and unproven: whether the key of a receipt was an operator's when the receipt arrived.

import type { Signer } from '../api/answers';
import { count, share } from '../format';
import { linkTo, pageLocation, type Trust } from '../location';
import { Narrow } from './Narrow';

/** Who signed, in few words: the operator, or the beginning of the key of none. */
export const signerText = (signer: Signer): string => {
  if (signer.operator) return signer.operator;
  return keyText(signer) + claimText(signer);
};

/** The beginning of the key. */
export const keyText = ({ keyFingerprint }: Signer): string =>
  keyFingerprint ? `key ${keyFingerprint.slice(0, 8)}` : 'erased key';

/** Who else claims the client's ID; empty if nobody does. */
export const claimText = (signer: Signer): string =>
  signer.clientIdClaimedBy ? ` · ID claimed by ${signer.clientIdClaimedBy.join(', ')}` : '';

/** The word itself, which is never shortened: what stands beside it is. */
export function Badge({ trust }: { trust: string }) {
  return <span class={`trust ${trust}`}>{trust}</span>;
}

/** The proven part of a number of receipts: a bar, and both parts with links to each alone. */
export function ProvenPart({ proven, all }: { proven: number; all: number }) {
  const part = (trust: Trust, number: number) => {
    const text = `${count(number)} ${trust}`;
    return pageLocation.value.trust || number === 0 ? text : <Narrow href={linkTo({ trust })} name={text} />;
  };
  return (
    <dd class="proven-part">
      <ProvenBar proven={proven} all={all} />
      <span>
        {part('proven', proven)} ({share(proven, all)})
      </span>{' '}
      · <span>{part('unproven', all - proven)}</span>
    </dd>
  );
}

/** A bar of `all` receipts, whose proven part is in the colour of ink. */
export function ProvenBar({ proven, all }: { proven: number; all: number }) {
  return <i class="proven-bar" aria-hidden="true" style={{ '--proven': all === 0 ? 0 : proven / all }} />;
}

/**
 * Receipts that the totals leave out, because anybody could have sent them for a domain without an
 * owner.
 */
export function BeforeVerification({ receipts }: { receipts: number }) {
  if (receipts === 0) return null;
  const they = receipts === 1 ? '1 use that was' : `${count(receipts)} uses that were`;
  return <> {they} reported before the domain was first verified aren’t counted.</>;
}
