// Time zones by their IANA names.

/** The browser's own; UTC where it doesn't tell. */
export const ownZone = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC';

/** All that the browser knows, UTC first. */
export function allZones(): string[] {
  const named = typeof Intl.supportedValuesOf === 'function' ? Intl.supportedValuesOf('timeZone') : [ownZone()];
  return [...new Set(['UTC', ...named])];
}

export function isZone(name: string): boolean {
  // An offset is a zone to newer browsers, and not to the API.
  if (/^[+-]/.test(name)) return false;
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
    return true;
  } catch {
    return false;
  }
}
