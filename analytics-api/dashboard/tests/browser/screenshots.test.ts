// The README's pictures: a publisher's weeks, with receipts coming in while they are taken.
// `npm run screenshots`.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Signer } from '../../../../demo/signer.mjs';
import { packed } from './png';
import { articles, fill } from './sample';
import { type Service, start } from './service';
import { settled, signIn, visit } from './visit';

const IMAGES = join(import.meta.dirname, '../../../../docs/images');
const BYTES_MAX = 250_000;
const DAY_MS = 86_400_000;
/** Twice 30 days, so that there is something to compare with. */
const DAYS = 62;

let service: Service;
let stop: () => Promise<void>;
let key: string;
let senders: Signer[];

beforeAll(async () => {
  ({ service, stop } = await start({ RECEIPTS_LIMITS_TIMESTAMP_BEHIND_MS_MAX: String((DAYS + 1) * DAY_MS) }));
  key = service.key('--scope', 'read,write');
  service.setTier('enterprise');
  senders = await fill(service, key, 24_000, DAYS);
  const [first, second] = senders;
  if (!first || !second) throw new Error('there are clients');
  for (const [at, article] of articles().slice(0, 7).entries()) {
    await service.sendForged(at % 3 ? first : second, {
      ...article,
      timestampMs: Date.now() - 1000,
      purpose: 'training',
    });
  }
}, 200_000);

afterAll(() => stop?.());

/** A few receipts, one after the other, as the tape shows them. */
async function trickle(): Promise<void> {
  const [all, from] = [articles(), senders];
  for (let at = 0; at < 14; at++) {
    const [article, client] = [all[(at * at + 3) % all.length], from[(at * 5) % from.length]];
    if (!article || !client) continue;
    const purpose = (['inference', 'training', 'inference', 'research'] as const)[at % 4] ?? 'inference';
    await service.send(client, [{ ...article, timestampMs: Date.now() - 300, purpose, modelId: 'atlas-2' }]);
    await sleep(250);
  }
}

async function picture(
  name: string,
  options: BrowserContextOptions,
  hash: string,
  fullPage: boolean,
  act?: (page: Page) => Promise<void>,
) {
  await visit(service.addresses.analytics, options, async ({ page }) => {
    await signIn(page, key, hash);
    await settled(page);
    if (hash.startsWith('#/?')) await trickle();
    await act?.(page);
    await page.getByRole('button', { name: 'Refresh' }).click();
    await sleep(500);
    await settled(page);
    mkdirSync(IMAGES, { recursive: true });
    const path = join(IMAGES, `${name}.png`);
    await page.mouse.move(640, 4);
    const image = packed(await page.screenshot({ fullPage }));
    expect(image.length, path).toBeLessThan(BYTES_MAX);
    writeFileSync(path, image);
  });
}

const DESKTOP = { viewport: { width: 1200, height: 1380 } };
const RANGE = 'range=30d&tz=Europe/Berlin';

it('light', () => picture('dashboard-light', DESKTOP, `#/?${RANGE}`, false));

it('dark', () => picture('dashboard-dark', { ...DESKTOP, colorScheme: 'dark' }, '#/?range=7d&tz=Europe/Berlin', false));

it('one entry', () =>
  picture(
    'dashboard-entry',
    { viewport: { width: 1280, height: 900 } },
    `#/content/${articles()[0]?.entryId}?${RANGE}`,
    true,
  ));

it('on a phone', () =>
  picture('dashboard-phone', { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2 }, '#/?range=24h', false));
