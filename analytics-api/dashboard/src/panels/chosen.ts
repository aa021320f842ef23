// The selection as the API's parameters, for all panels of a view alike.

import type { Filter } from '../api/questions';
import { asOf } from '../ask';
import type { Place } from '../place';
import { type Interval, intervalFor, type Resolved, resolve } from '../ranges';

export interface Chosen {
  place: Place;
  range: Resolved;
  interval: Interval;
  /** Range, zone and filters. A range that ends now has no `to`. */
  query: Filter;
}

export function chosen(place: Place): Chosen {
  const range = resolve(place.range, place.tz, asOf.value);
  return {
    place,
    range,
    interval: intervalFor(place.interval, range.lengthMs),
    query: {
      from: range.from,
      to: range.isOpen ? undefined : range.to,
      tz: place.tz,
      purpose: place.purpose ?? undefined,
      modelId: place.modelId ?? undefined,
      trust: place.trust ?? undefined,
      domain: place.domain ?? undefined,
    },
  };
}
