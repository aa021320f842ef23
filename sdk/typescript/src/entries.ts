// What the service has of URLs.

import { membersOf } from "./answer.js";
import { RequestError } from "./errors.js";
import type { Transport } from "./transport.js";

const LOOKUP_PATH = "/api/v1/entries/lookup";
// The service's limit for a request.
const URLS_MAX = 1_000;
const AGE_MS_MAX = 300_000;
const CACHED_MAX = 100_000;
const utf8 = new TextEncoder();

/** What the service has of a URL. */
export interface Entry {
  /** The canonical URL. */
  readonly url: string;
  /** The publisher's ID for it, or the one that is derived from the URL. */
  readonly entryId: string;
  /** Verified domain that the URL belongs to; null: nobody has verified one. */
  readonly publisher: string | null;
  /** Whether the publisher lists the URL. */
  readonly listed: boolean;
  readonly title?: string;
}

/** Entries that were read, and are cached for five minutes. */
export class Entries {
  readonly #transport: Transport;
  readonly #url: string;
  readonly #cache = new Map<string, { entry: Entry | null; atMs: number }>();

  constructor(transport: Transport, url: string) {
    this.#transport = transport;
    this.#url = url.replace(/\/+$/, "") + LOOKUP_PATH;
  }

  /** Return the entry of each URL, or null for one that is faulty. Throws `RequestError`. */
  async resolve(urls: Iterable<string>): Promise<Map<string, Entry | null>> {
    const found = new Map<string, Entry | null>();
    const missing: string[] = [];
    const now = performance.now();
    for (const url of new Set(urls)) {
      const cached = this.#cache.get(url);
      found.set(url, cached?.entry ?? null);
      if (!cached || now - cached.atMs > AGE_MS_MAX) missing.push(url);
    }
    for (let start = 0; start < missing.length; start += URLS_MAX) {
      for (const [url, entry] of await this.#lookUp(missing.slice(start, start + URLS_MAX))) {
        found.set(url, entry);
        if (this.#cache.size >= CACHED_MAX) this.#cache.clear();
        this.#cache.set(url, { entry, atMs: now });
      }
    }
    return found;
  }

  async #lookUp(urls: readonly string[]): Promise<[string, Entry | null][]> {
    const body = utf8.encode(JSON.stringify({ urls }));
    const data = await this.#transport.query({ method: "POST", url: this.#url, body });
    const { entries } = membersOf(data) ?? {};
    if (!Array.isArray(entries) || entries.length !== urls.length) {
      throw new RequestError(
        200,
        `POST ${this.#url}: the answer doesn't have an entry for each URL`,
      );
    }
    return urls.map((url, index) => [url, entries[index] as Entry | null]);
  }
}
