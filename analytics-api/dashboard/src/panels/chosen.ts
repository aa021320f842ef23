// The selection as the API's parameters, for all panels of a view alike.

import type { Filter } from '../api/questions';
import { asOf } from '../ask';
import type { PageLocation } from '../location';
import { type Interval, intervalFor, type Resolved, resolve } from '../ranges';

export interface Chosen {
  location: PageLocation;
  range: Resolved;
  interval: Interval;
  /** Range, zone and filters. A range that ends now has no `to`. */
  query: Filter;
}

export function chosen(location: PageLocation): Chosen {
  const range = resolve(location.range, location.tz, asOf.value);
  return {
    location,
    range,
    interval: intervalFor(location.interval, range.lengthMs),
    query: {
      from: range.from,
      to: range.isOpen ? undefined : range.to,
      tz: location.tz,
      purpose: location.purpose ?? undefined,
      modelId: location.modelId ?? undefined,
      trust: location.trust ?? undefined,
      operator: location.operator ?? undefined,
      domain: location.domain ?? undefined,
    },
  };
}
