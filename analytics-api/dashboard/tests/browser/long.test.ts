// Long lists while receipts arrive: by page, by file and by the API, each row as often as its order
// promises. LIST_TITLES=10000 has ten thousand titles and two thousand AI services.

import { createHash, createPublicKey } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { Signer } from '../../../../demo/signer.mjs';
import { parseLocation } from '../../src/location';
import { numbers, uuid } from './sample';
import { Service, type Use } from './service';
import { download, signIn, visit } from './visit';

const TITLES = Number(process.env.LIST_TITLES ?? 500);
const TITLES_OF_ONE = 5;
const SERVICES = TITLES / TITLES_OF_ONE;
/** Each so many-th row gains receipts while the lists are read. */
const BUSY_EVERY = 4;
const SENDERS = 8;
const PUBLISHER = 'many.example';
const HOUR_MS = 3_600_000;

const service = new Service(inject('data'), inject('addresses'));
const base = service.addresses.analytics;
const random = numbers(33);
const pick = <T>(from: T[]): T => from[Math.floor(random() * from.length)] as T;

type List = 'content' | 'services';
/** The rows that exist before the lists are read, and whether each is busy. */
const there: Record<List, Map<string, boolean>> = { content: new Map(), services: new Map() };
/** How many titles and AI services are new since, receipts with them. */
const since = { content: 0, services: 0, receipts: 0 };

/** How often an order has a busy row; one that nothing arrives for, once. */
const MOVES: Record<string, [least: number, most: number]> = {
  '-receiptCount': [0, 1],
  '-lastSeen': [0, 1],
  receiptCount: [1, Infinity],
  lastSeen: [1, Infinity],
};

let key: string;
let ended = false;
let sending: Promise<void>;

const signers = Array.from({ length: SERVICES }, (_, at) => signer(at));
const titles = Array.from({ length: TITLES }, (_, at) => uuid(`many ${at}`));
const isBusy = (_: unknown, at: number) => at % BUSY_EVERY === 0;

function signer(at: number): Signer {
  const made = new Signer('Ed25519', { name: `Reader ${at % 70}` });
  // Each tenth service uses the ID of the one before, with a key of its own.
  Object.assign(made.client, { id: uuid(`reader ${at % 10 === 1 ? at - 1 : at}`) });
  return made;
}

function use(entryId: string, timestampMs: number): Use {
  return { entryId, url: `https://${PUBLISHER}/${entryId}`, timestampMs, purpose: 'training', publisher: PUBLISHER };
}

function serviceRow({ client, publicPem }: Signer): string {
  const spki = createPublicKey(publicPem).export({ type: 'spki', format: 'der' });
  return `${client.id} ${createHash('sha256').update(spki).digest('hex')}`;
}

beforeAll(async () => {
  key = service.keyOf(PUBLISHER);
  service.setTier('enterprise', PUBLISHER);
  titles.forEach((id, at) => void there.content.set(id, isBusy(id, at)));
  signers.forEach((one, at) => void there.services.set(serviceRow(one), isBusy(one, at)));
  const waiting = signers.entries();
  const sender = async () => {
    for (const [at, one] of waiting) {
      const own = titles.slice(at * TITLES_OF_ONE, (at + 1) * TITLES_OF_ONE);
      await service.send(
        one,
        own.map((id) => use(id, Date.now() - Math.floor(random() * HOUR_MS))),
      );
    }
  };
  await Promise.all(Array.from({ length: SENDERS }, sender));
  await service.counted(TITLES, key);
  sending = sendOn();
}, 600_000);

afterAll(async () => {
  ended = true;
  await sending;
});

/** Receipts for busy and new titles, of busy and new services, until the lists are read. */
async function sendOn(): Promise<void> {
  const [busyTitles, busySigners] = [titles.filter(isBusy), signers.filter(isBusy)];
  for (let round = 0; !ended; round++) {
    const isNew = round % 5 === 0;
    const uses = Array.from({ length: 8 }, () => use(pick(busyTitles), Date.now() - Math.floor(random() * 60_000)));
    uses.push(use(uuid(`new ${round}`), Date.now()));
    await service.send(isNew ? signer(SERVICES + round * 10) : pick(busySigners), uses);
    since.content += 1;
    since.services += isNew ? 1 : 0;
    since.receipts += uses.length;
    await sleep(50);
  }
}

/** Reads a list while receipts arrive, and compares how often it has each row. */
async function compare(list: List, sort: string, read: () => Promise<string[]>): Promise<void> {
  const where = `${list} by ${sort}`;
  let found: string[];
  let sentBefore: number;
  // A short list may be read between two batches.
  do {
    sentBefore = since.receipts;
    found = await read();
  } while (since.receipts === sentBefore);
  const times = new Map<string, number>();
  for (const row of found) times.set(row, (times.get(row) ?? 0) + 1);
  const [least, most] = MOVES[sort] ?? [1, 1];
  const wrong = [...there[list]].filter(([row, busy]) => {
    const found = times.get(row) ?? 0;
    return busy ? found < least || found > most : found !== 1;
  });
  const first = wrong.slice(0, 5).map(([row, busy]) => `${row}${busy ? ' (busy)' : ''}: ${times.get(row) ?? 0} times`);
  expect(first, `${where}: ${wrong.length} wrong of ${there[list].size}`).toEqual([]);
  const unknown = [...times].filter(([row]) => !there[list].has(row));
  expect(unknown.length, where).toBeLessThanOrEqual(since[list] + 1);
  if (most === 1) expect(unknown.filter(([, found]) => found !== 1).slice(0, 5), where).toEqual([]);
}

const PATHS: Record<List, string> = { content: 'content', services: 'clients' };

interface Rows {
  content?: { entryId: string }[];
  clients?: { clientId: string; keyFingerprint: string }[];
  nextCursor: string | null;
}

async function readApi(list: List, sort: string): Promise<string[]> {
  const found: string[] = [];
  let cursor = '';
  do {
    const path = `/api/v1/analytics/${PATHS[list]}?limit=100&sort=${sort}`;
    const answer = (await (
      await service.ask(cursor ? `${path}&cursor=${encodeURIComponent(cursor)}` : path, key)
    ).json()) as Rows;
    found.push(...(answer.content ?? []).map(({ entryId }) => entryId));
    found.push(...(answer.clients ?? []).map(({ clientId, keyFingerprint }) => `${clientId} ${keyFingerprint}`));
    cursor = answer.nextCursor ?? '';
  } while (cursor);
  return found;
}

/** From page to page, as a person does. */
async function readPages(page: Page, list: List, sort: string): Promise<string[]> {
  await page.goto(`/dashboard#/${list}?sort=${sort}`);
  const found: string[] = [];
  for (;;) {
    await page.waitForFunction((first) => {
      const status = document.querySelector('.pages [role="status"]')?.textContent ?? '';
      const isLoaded = document.querySelectorAll('[aria-busy="true"], .body.stale').length === 0;
      return isLoaded && status.replaceAll(',', '').startsWith(`${first}–`);
    }, found.length + 1);
    // Both at once: the page follows the receipts, too.
    const [hashes, next] = await page.evaluate(
      () =>
        [
          [...document.querySelectorAll<HTMLAnchorElement>('.listed tbody th a')].map(({ hash }) => hash),
          document.querySelector<HTMLAnchorElement>('.pages [rel="next"]')?.hash,
        ] as const,
    );
    for (const hash of hashes) {
      const { view } = parseLocation(hash);
      if (view.name === 'content') found.push(view.id);
      else if (view.name === 'service') found.push(`${view.id} ${view.fingerprint}`);
      else throw new Error(`${hash} is of no row`);
    }
    if (!next) return found;
    await page.evaluate((next) => {
      location.hash = next;
    }, next);
  }
}

describe.each([
  ['content', ['entryId', '-receiptCount', 'receiptCount', '-lastSeen', 'lastSeen'], ['-receiptCount', 'lastSeen']],
  [
    'services',
    ['clientId', 'name', '-receiptCount', 'receiptCount', '-lastSeen', 'lastSeen'],
    ['-receiptCount', 'name'],
  ],
] as const)('a long list of %s, while receipts arrive', (list, orders, onPage) => {
  it.each(orders)('is complete by the API in the order %s', (sort) => compare(list, sort, () => readApi(list, sort)));

  it.each(onPage)('is complete from page to page in the order %s', (sort) =>
    visit(base, {}, async ({ page }) => {
      await signIn(page, key);
      await compare(list, sort, () => readPages(page, list, sort));
    }),
  );

  it('is complete as a file', () =>
    visit(base, { acceptDownloads: true }, async ({ page }) => {
      await signIn(page, key, `#/${list}`);
      const title = list === 'content' ? 'Content' : 'AI services';
      const columns = list === 'content' ? 1 : 2;
      await compare(list, 'of the file', async () => {
        const { lines } = await download(page, title);
        return lines.map((line) => line.split(',').slice(0, columns).join(' '));
      });
    }));
});

it('has exactly what was sent, in the end', async () => {
  ended = true;
  await sending;
  await service.counted(TITLES + since.receipts, key);
  const found = { content: await readApi('content', 'entryId'), services: await readApi('services', 'clientId') };
  expect(found.content.length).toBe(TITLES + since.content);
  expect(new Set(found.content).size).toBe(TITLES + since.content);
  expect(found.services.length).toBe(SERVICES + since.services);
  expect(new Set(found.services).size).toBe(SERVICES + since.services);
});
