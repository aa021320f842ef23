// The canonical form of a URL and its host, and the entry ID that is derived from it.
// docs/receipt-format.md defines them.

import { UseError } from "./errors.js";
import { urlId } from "./uuid.js";

const URL_PARTS = /^(https?):\/\/([^/?#@:[\]\\]+)(?::([0-9]*))?((?:[/?][^#]*)?)(?:#.*)?$/is;
// A last label that begins with a digit is that of an IPv4 address.
const HOST = /^(?=.{1,253}$)(?:[a-z0-9_-]{1,63}\.)+[a-z_-][a-z0-9_-]{0,62}$/;
const HOST_CHARS_MAX = 253;
const PORT_MAX = 65_535;

/** Return the canonical form of an http or https URL. Throws `UseError`. */
export function canonicalUrl(url: string): string {
  return canonical(url).url;
}

/** Return the canonical host of an http or https URL. Throws `UseError`. */
export function hostOf(url: string): string {
  return canonical(url).host;
}

/** Return the canonical form of a host, or `undefined` if it isn't a domain name. */
export function canonicalHost(host: string): string | undefined {
  // Before A-labels are made, whose work grows with the square of a label's length. The URL parser
  // would decode percent-encoding.
  if ([...host].length > HOST_CHARS_MAX + 1 || host.includes("%")) return undefined;
  const name = asciiHost(host)?.replace(/\.$/, "");
  return name !== undefined && HOST.test(name) ? name : undefined;
}

/** Return the UUIDv5 of a URL's canonical form (RFC 9562, section 5.5). Throws `UseError`. */
export async function entryIdOf(url: string): Promise<string> {
  return await urlId(canonicalUrl(url));
}

function canonical(url: string): { url: string; host: string } {
  const parts = URL_PARTS.exec(url);
  if (!parts || /[\p{White_Space}\p{Cc}]|\p{Surrogate}/u.test(url)) {
    const advice = "write an http or https URL without a user, white space and control characters";
    throw new UseError(`url is ${JSON.stringify(url.slice(0, 200))}: ${advice}`);
  }
  const scheme = parts[1]!.toLowerCase();
  const host = canonicalHost(parts[2]!);
  const port = parts[3] ? Number(parts[3]) : undefined;
  if (host === undefined) {
    const shown = JSON.stringify(parts[2]!.slice(0, 200));
    throw new UseError(`url is on ${shown}: its host must be a domain name, like news.example`);
  }
  if ((port ?? 0) > PORT_MAX) {
    throw new UseError(`url has the port ${port}: at most ${PORT_MAX} is possible`);
  }
  const isStandard = port === undefined || port === (scheme === "https" ? 443 : 80);
  const rest = parts[4]!;
  const path = (rest.startsWith("/") ? rest : `/${rest}`).replace(
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the range of ASCII.
    /[^\x00-\x7f]+|["'<>\\^`{|}]/gu,
    (text) => (text === "'" ? "%27" : encodeURIComponent(text)),
  );
  return { url: `${scheme}://${host}${isStandard ? "" : `:${port}`}${path}`, host };
}

function asciiHost(host: string): string | undefined {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the range of ASCII.
  if (/^[\x00-\x7f]*$/.test(host)) return host.toLowerCase();
  try {
    return new URL(`http://${host}/`).hostname;
  } catch {
    return undefined;
  }
}
