// The selection as the API's parameters, for all panels of a view alike.

import type { Query } from '../api/questions';
import { asOf } from '../ask';
import type { Place } from '../place';
import { type Interval, intervalFor, type Resolved, resolve } from '../ranges';

export interface Chosen {
  place: Place;
  range: Resolved;
  interval: Interval;
  /** Range, zone and filters. */
  query: Query;
}

export function chosen(place: Place): Chosen {
  const range = resolve(place.range, place.tz, asOf.value);
  return {
    place,
    range,
    interval: intervalFor(place.interval, range.lengthMs),
    query: {
      from: range.from,
      to: range.to,
      tz: place.tz,
      purpose: place.purpose ?? undefined,
      modelId: place.modelId ?? undefined,
      domain: place.domain ?? undefined,
    },
  };
}

/** Those that a question doesn't take, left out. */
export function without(query: Query, ...names: string[]): Query {
  return Object.fromEntries(Object.entries(query).filter(([name]) => !names.includes(name)));
}
