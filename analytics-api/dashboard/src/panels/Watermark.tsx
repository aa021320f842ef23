// "Complete through 12:03:05": the promise over every number on the page, or a warning where it
// doesn't hold.

import { clock, date, span } from '../format';
import { place } from '../place';
import { dayOf } from '../ranges';
import { completeness, tick } from '../watermark';

export function Watermark() {
  const now = completeness.value;
  const { tz } = place.value;
  if (now.state === 'unknown') return <p class="watermark">Complete through –</p>;
  const sameDay = dayOf(now.throughMs, tz) === dayOf(tick.value, tz);
  const at = sameDay ? clock(now.throughMs, tz) : `${date(now.throughMs, tz)}, ${clock(now.throughMs, tz)}`;
  return (
    <p class={`watermark ${now.state}`} title="Every receipt acknowledged before this instant is counted.">
      <i aria-hidden="true" />
      <span>Complete through</span> <time dateTime={new Date(now.throughMs).toISOString()}>{at}</time>
    </p>
  );
}

/** Where the promise doesn't hold, or is old. */
export function Warning() {
  const now = completeness.value;
  let text = '';
  if (now.state === 'incomplete') {
    text =
      'The last check found receipts missing, or counted too often. The numbers may be off by them until they are repaired.';
  } else if (now.state === 'behind') {
    text = `Counting is ${span(now.behindMs)} behind: receipts acknowledged since then aren’t in these numbers yet.`;
  }
  return (
    <div class="warning-place" role="status">
      {text && (
        <p class="warning">
          <strong>{now.state === 'incomplete' ? 'Incomplete.' : 'Behind.'}</strong> {text}
        </p>
      )}
    </div>
  );
}
