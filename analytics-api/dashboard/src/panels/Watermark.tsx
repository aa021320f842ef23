// "Complete through 12:03:05": the promise over every number on the page, or a warning where it
// doesn't hold.

import { refresh } from '../ask';
import { clock, date, span } from '../format';
import { awaited, failing, limited } from '../loads';
import { pageLocation } from '../location';
import { dayOf } from '../ranges';
import { type Completeness, completeness, tick } from '../watermark';

export function Watermark() {
  const now = completeness.value;
  const { tz } = pageLocation.value;
  const loading = (
    <span class="loading" role="status">
      {awaited.value && 'Loading…'}
    </span>
  );
  if (now.state === 'unknown') return <p class="watermark">{loading}Complete through –</p>;
  const sameDay = dayOf(now.throughMs, tz) === dayOf(tick.value, tz);
  const at = sameDay ? clock(now.throughMs, tz) : `${date(now.throughMs, tz)}, ${clock(now.throughMs, tz)}`;
  return (
    <p class={`watermark ${now.state}`} title="Every use that was reported before this time is counted.">
      {loading}
      <i aria-hidden="true" />
      <span>Complete through</span> <time dateTime={new Date(now.throughMs).toISOString()}>{at}</time>
    </p>
  );
}

/** Where the promise doesn't hold, or is old. */
export function Warning() {
  const now = completeness.value;
  const [name, text] = warning(now) ?? [];
  return (
    <div class="warning-slot" role="status">
      {name && (
        <p class="warning">
          <span>
            <strong>{name}.</strong> {text}
          </span>
          {now.state === 'stale' && (
            <button type="button" onClick={refresh}>
              Try now
            </button>
          )}
        </p>
      )}
    </div>
  );
}

function warning(now: Completeness): [name: string, text: string] | null {
  if (limited.value)
    return [
      'Too many requests',
      'The requests of your account are used up for now. Numbers that are grey or missing follow by themselves.',
    ];
  switch (now.state) {
    case 'incomplete':
      return [
        'Incomplete',
        'The last check found uses missing, or counted too often. The numbers may be off by them until they are repaired.',
      ];
    case 'behind':
      return [
        'Behind',
        `Counting is ${span(now.behindMs)} behind: uses reported since then aren’t in these numbers yet.`,
      ];
    case 'stale':
      return [
        'Not up to date',
        failing.value
          ? 'The service doesn’t answer. These are the last numbers that it gave; the page keeps trying.'
          : 'Nothing new was heard for a while. These are the last numbers that came.',
      ];
    default:
      return null;
  }
}
