// Time zones by their IANA names.

/** The browser's own; UTC where it doesn't tell. */
export const ownZone = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC';

/**
 * What browsers list by an earlier name (CLDR keeps the first one it had) and understand by this
 * one too.
 */
const RENAMED = [
  'Africa/Asmara',
  'America/Argentina/Buenos_Aires',
  'America/Argentina/Catamarca',
  'America/Argentina/Cordoba',
  'America/Argentina/Jujuy',
  'America/Argentina/Mendoza',
  'America/Atikokan',
  'America/Indiana/Indianapolis',
  'America/Kentucky/Louisville',
  'America/Nuuk',
  'Asia/Ho_Chi_Minh',
  'Asia/Kathmandu',
  'Asia/Kolkata',
  'Asia/Yangon',
  'Atlantic/Faroe',
  'Europe/Kyiv',
  'Pacific/Chuuk',
  'Pacific/Kanton',
  'Pacific/Pohnpei',
];

/** All that the browser knows, by their names' first parts. */
export function zonesByArea(): [area: string, zones: string[]][] {
  const named = typeof Intl.supportedValuesOf === 'function' ? Intl.supportedValuesOf('timeZone') : [];
  const areas = new Map<string, string[]>();
  for (const zone of [...new Set([...named, ...RENAMED.filter(isZone)])].sort()) {
    const [area = '', place] = zone.split('/', 2);
    if (place) areas.set(area, [...(areas.get(area) ?? []), zone]);
  }
  return [...areas];
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
