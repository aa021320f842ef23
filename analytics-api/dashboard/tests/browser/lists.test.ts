// Lists of everything: search, order, pages, CSV.

import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, inject, it } from 'vitest';
import { clients, uuid } from './sample';
import { Service } from './service';
import { accessible, download, signIn, visit } from './visit';

const service = new Service(inject('data'), inject('addresses'));
const base = service.addresses.analytics;
const PUBLISHER = 'lists.example';
const TITLES = 230;

let key: string;

beforeAll(async () => {
  const [stranger, registered] = clients();
  if (!stranger || !registered) throw new Error('there are clients');
  key = service.keyOf(PUBLISHER);
  service.setTier('enterprise', PUBLISHER);
  await service.operator('lists-lab.example', [registered.signer]);
  const use = (at: number, earlierMs: number) => ({
    entryId: uuid(`lists ${at}`),
    url: `https://${PUBLISHER}/item-${at}`,
    timestampMs: Date.now() - 1000 * at - earlierMs,
    purpose: 'training' as const,
    modelId: `model-${at % 3}`,
    publisher: PUBLISHER,
  });
  const all = Array.from({ length: TITLES }, (_, at) => at);
  await service.send(
    registered.signer,
    all.map((at) => use(at, 0)),
  );
  const again = all.filter((at) => at % 3 === 0);
  await service.send(
    stranger.signer,
    again.map((at) => use(at, 500)),
  );
  await service.counted(TITLES + again.length, key);
}, 180_000);

const rows = (page: Page) =>
  page.locator('.listed tbody tr').evaluateAll((found) => found.map((row) => row.querySelector('a')?.hash ?? ''));
const shown = (page: Page, text: string) => page.getByRole('status').getByText(text, { exact: true }).waitFor();
const go = (page: Page, name: string) => page.getByRole('link', { name, exact: true }).click();

/** The first cell of a line. */
const id = (line: string) => line.split(',')[0];

/** Until the list on show is the one that was requested last. */
async function loaded(page: Page) {
  await page.waitForFunction(() => document.querySelectorAll('[aria-busy="true"], .body.stale').length === 0);
}

describe('a list', () => {
  it('has every row on one of its pages, which the address names', () =>
    visit(base, {}, async ({ page }) => {
      await signIn(page, key);
      await page.getByRole('link', { name: `All ${TITLES} titles` }).click();
      await page.getByRole('heading', { level: 1, name: 'Content' }).waitFor();
      await shown(page, `1–50 of ${TITLES} titles`);
      await accessible(page, 'content');
      const first = await rows(page);
      const found = [...first];
      for (const range of ['51–100', '101–150', '151–200', '201–230']) {
        await go(page, 'Next');
        await shown(page, `${range} of ${TITLES} titles`);
        found.push(...(await rows(page)));
      }
      expect(new Set(found).size).toBe(TITLES);
      expect(found.length).toBe(TITLES);
      expect(await page.getByRole('link', { name: 'Next' }).count()).toBe(0);
      expect(await page.evaluate(() => document.activeElement?.tagName)).toBe('H1');

      const last = await rows(page);
      await page.reload();
      await shown(page, `201–230 of ${TITLES} titles`);
      expect(await rows(page)).toEqual(last);
      await page.goBack();
      await shown(page, `151–200 of ${TITLES} titles`);
      await page.goBack();
      await shown(page, `101–150 of ${TITLES} titles`);
      await go(page, 'Next');
      await shown(page, `151–200 of ${TITLES} titles`);
      await go(page, 'Previous');
      await shown(page, `101–150 of ${TITLES} titles`);
      await go(page, 'First');
      await shown(page, `1–50 of ${TITLES} titles`);
      expect(await rows(page)).toEqual(first);
      // Another selection is another list.
      await go(page, 'Next');
      await shown(page, `51–100 of ${TITLES} titles`);
      await page.getByRole('radio', { name: '30 days' }).check();
      await shown(page, `1–50 of ${TITLES} titles`);
    }));

  it('is in the order of its headings', () =>
    visit(base, {}, async ({ page }) => {
      await signIn(page, key, '#/content');
      await shown(page, `1–50 of ${TITLES} titles`);
      const sorted = () =>
        page.locator('[aria-sort]').evaluateAll((found) => found.map((one) => [one.textContent, one.ariaSort]));
      expect(await sorted()).toEqual([[expect.stringContaining('↓'), 'descending']]);
      await go(page, 'Last used');
      await loaded(page);
      const newest = await rows(page);
      expect(newest[0]).toContain(uuid('lists 0'));
      expect(await sorted()).toEqual([['Last used ↓', 'descending']]);
      expect(page.url()).toContain('sort=-lastSeen');
      await page.getByRole('link', { name: 'Last used' }).click();
      await expect.poll(async () => (await rows(page))[0]).toContain(uuid(`lists ${TITLES - 1}`));
      expect(await sorted()).toEqual([['Last used ↑', 'ascending']]);
      await page.goBack();
      await expect.poll(() => rows(page)).toEqual(newest);
    }));

  it('is searched as one types, without a stop of Back for each letter', () =>
    visit(base, {}, async ({ page }) => {
      await signIn(page, key, '#/content');
      await shown(page, `1–50 of ${TITLES} titles`);
      await go(page, 'Next');
      await shown(page, `51–100 of ${TITLES} titles`);
      const requests: string[] = [];
      page.on('request', (request) => request.url().includes('q=') && requests.push(request.url()));
      const field = page.getByRole('searchbox', { name: 'Search titles' });
      await field.pressSequentially('ITEM-22', { delay: 20 });
      await shown(page, '1–11 of 11 titles');
      expect(requests.length).toBe(1);
      expect(await field.evaluate((input) => input === document.activeElement)).toBe(true);
      expect(page.url()).toContain('q=ITEM-22');
      await page.reload();
      await shown(page, '1–11 of 11 titles');
      expect(await field.inputValue()).toBe('ITEM-22');
      await field.fill('nothing like it');
      await page.getByText('No titles with “nothing like it” in this range.').waitFor();
      await accessible(page, 'nothing found');
      await page.goBack();
      await shown(page, `1–50 of ${TITLES} titles`);
      expect(await field.inputValue()).toBe('');
    }));

  it('is there for services, models, operators, and what one title or service has', () =>
    visit(base, { viewport: { width: 390, height: 844 } }, async ({ page }) => {
      await signIn(page, key);
      for (const [name, status] of [
        ['AI services', '1–2 of 2 AI services'],
        ['Models', '1–3 of 3 models'],
        ['Operators', '1–2 of 2 operators'],
      ] as const) {
        await go(page, name);
        await shown(page, status);
        expect(await page.locator('[aria-current="page"]').innerText()).toBe(name);
        expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
        await accessible(page, name);
      }
      await go(page, 'lists-lab.example');
      await page.getByRole('button', { name: 'Remove filter: Operator lists-lab.example' }).waitFor();
      await page.locator('.figure.first .value').getByText('230').waitFor();
      await page.goto(`/dashboard#/content/${uuid('lists 3')}/services`);
      await shown(page, '1–2 of 2 AI services');
      await go(page, 'The title');
      await page.getByRole('link', { name: 'All 2 AI services' }).click();
      await page.getByRole('heading', { name: 'AI services that used one title' }).waitFor();
      await page
        .locator('.listed tbody tr', { has: page.locator('.trust.proven') })
        .getByRole('link')
        .click();
      await page.getByRole('link', { name: `All ${TITLES} titles` }).click();
      await shown(page, `1–50 of ${TITLES} titles`);
      await accessible(page, 'content of one service');
    }));
});

describe('CSV', () => {
  it('has every row of the selection, and the name that the API gives it', () =>
    visit(base, { acceptDownloads: true }, async ({ page, allow }) => {
      allow(429);
      await signIn(page, key, '#/content');
      await shown(page, `1–50 of ${TITLES} titles`);
      let refused = 0;
      // A quota that is used up in between.
      await page.route(/cursor=.*/, (route) =>
        refused++ === 0
          ? route.fulfill({
              status: 429,
              headers: { 'retry-after': '1', 'content-type': 'application/problem+json' },
              body: '{"code":"rate_limited","detail":"too many"}',
            })
          : route.continue(),
      );
      const file = await download(page, 'Content');
      expect(file.name).toMatch(/^content-from-\d{4}-\d\d-\d\d\.csv$/);
      expect(file.header).not.toContain('cursor');
      expect(new Set(file.lines.map(id))).toEqual(
        new Set(Array.from({ length: TITLES }, (_, at) => uuid(`lists ${at}`))),
      );
      expect(file.lines.length).toBe(TITLES);
      // Two pages more, and the one that was refused.
      expect(refused).toBe(3);

      await page.getByRole('searchbox').fill('item-22');
      await shown(page, '1–11 of 11 titles');
      expect((await download(page, 'Content')).lines.length).toBe(11);
      await page.goto('/dashboard#/operators');
      await shown(page, '1–2 of 2 operators');
      expect((await download(page, 'Operators')).lines.map(id)).toEqual(['lists-lab.example', '']);
    }));

  it('can be stopped', () =>
    visit(base, { acceptDownloads: true }, async ({ page }) => {
      await signIn(page, key, '#/content');
      await shown(page, `1–50 of ${TITLES} titles`);
      // The second page never comes.
      await page.route(/cursor=.*/, () => {});
      await page.getByRole('button', { name: 'Download CSV: Content' }).click();
      const stop = page.getByRole('button', { name: 'Stop the download: Content' });
      await stop.getByText('100 rows').waitFor();
      await stop.click();
      await page.getByRole('button', { name: 'Download CSV: Content' }).waitFor();
      expect(await page.locator('.fault').count()).toBe(0);
    }));
});
