// The canonical form of a URL, and the entry ID that is derived from it. docs/receipt-format.md
// defines both.

import { UseError } from "./errors.js";
import { urlId } from "./uuid.js";

const URL_PARTS = /^(https?):\/\/([^/?#@:[\]\\]+)(?::([0-9]*))?((?:[/?][^#]*)?)(?:#.*)?$/is;
const HOST = /^[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/;
const PORT_MAX = 65_535;

/** Return the canonical form of an http or https URL. Throws `UseError`. */
export function canonicalUrl(url: string): string {
  const parts = URL_PARTS.exec(url);
  if (!parts || /[\s\p{Cc}]|\p{Surrogate}/u.test(url)) {
    throw new UseError("url isn't an http or https URL without a user, white space and control characters");
  }
  const scheme = parts[1]!.toLowerCase();
  const host = asciiHost(parts[2]!.toLowerCase()).replace(/\.$/, "");
  const port = parts[3] ? Number(parts[3]) : undefined;
  if (!HOST.test(host) || (port ?? 0) > PORT_MAX) {
    throw new UseError("url's host must be a domain name, and its port at most 65535");
  }
  const isStandard = port === undefined || port === (scheme === "https" ? 443 : 80);
  const rest = parts[4]!;
  const path = (rest.startsWith("/") ? rest : `/${rest}`).replace(
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the range of ASCII.
    /[^\x00-\x7f]+|["'<>\\^`{|}]/gu,
    (text) => (text === "'" ? "%27" : encodeURIComponent(text)),
  );
  return `${scheme}://${host}${isStandard ? "" : `:${port}`}${path}`;
}

/** Return the UUIDv5 of a URL's canonical form (RFC 9562, section 5.5). Throws `UseError`. */
export async function entryIdOf(url: string): Promise<string> {
  return await urlId(canonicalUrl(url));
}

function asciiHost(host: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the range of ASCII.
  if (/^[\x00-\x7f]*$/.test(host)) return host;
  try {
    return new URL(`http://${host}/`).hostname;
  } catch {
    throw new UseError("url's host isn't a domain name");
  }
}
