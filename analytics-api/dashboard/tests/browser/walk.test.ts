// A walk of random clicks over the numbers: after each, the screen shows what a model counts from
// the receipts themselves, and so do the API and the CSV.

import { readFileSync } from 'node:fs';
import type { Locator, Page } from 'playwright-core';
import { expect, inject, it } from 'vitest';
import { type PageLocation, parseLocation } from '../../src/location';
import { numbers } from './sample';
import { Service } from './service';
import { signIn, visit } from './visit';

const CLICKS = Number(process.env.WALK_CLICKS ?? 60);
const SEED = Number(process.env.WALK_SEED ?? 11);
/** Clicks from one comparison of a file with the screen to the next. */
const CSV_EVERY = 10;

const key = inject('key');
const service = new Service(inject('data'), inject('addresses'));
const base = service.addresses.analytics;

/** A receipt as the API lists it, all of them: what the model counts. */
interface Receipt {
  timestamp: string;
  entryId: string;
  clientId: string;
  keyFingerprint: string;
  operator: string | null;
  modelId: string | null;
  purpose: string;
  publisher: string;
}

type Key = (receipt: Receipt) => string;
const KEYS: Record<string, Key> = {
  content: ({ entryId }) => entryId,
  services: ({ clientId, keyFingerprint }) => `${clientId} ${keyFingerprint}`,
  models: ({ modelId }) => modelId ?? '',
  operators: ({ operator }) => operator ?? '',
};

/** Whether the page's address selects this receipt, but for its range. */
function isSelected(at: PageLocation, receipt: Receipt): boolean {
  const { view } = at;
  const of = view.name === 'list' ? view.of : view.name === 'overview' || view.name === 'unknown' ? null : view;
  return (
    (at.purpose === null || receipt.purpose === at.purpose) &&
    (at.modelId === null || receipt.modelId === at.modelId) &&
    (at.trust === null || (receipt.operator === null) === (at.trust === 'unproven')) &&
    (at.operator === null || receipt.operator === at.operator) &&
    (at.domain === null || receipt.publisher === at.domain) &&
    (of?.name !== 'content' || receipt.entryId === of.id) &&
    (of?.name !== 'service' ||
      (receipt.clientId === of.id && (of.fingerprint === null || receipt.keyFingerprint === of.fingerprint)))
  );
}

const distinct = (receipts: Receipt[], key: Key) => new Set(receipts.map(key)).size;
const number = (text: string) => Number(text.replaceAll(',', ''));
const figure = (page: Page, name: RegExp) =>
  page.locator('.figure').filter({ has: page.locator('dt', { hasText: name }) });

/** What can be clicked and leads to other numbers. */
const choices = (page: Page): Locator =>
  page.locator('main a[href^="#/"]:visible, .controls a[href^="#"]:visible, .controls button:visible');

it(`shows the same numbers everywhere over ${CLICKS} random clicks`, async () => {
  const asked = await service.ask('/api/v1/analytics/receipts?limit=10000', key, 'application/x-ndjson');
  const all = (await asked.text())
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Receipt);
  const random = numbers(SEED);
  const pick = <T>(from: T[]): T => from[Math.floor(random() * from.length)] as T;

  await visit(base, {}, async ({ page }) => {
    // The range as the API understood it, in UTC.
    let range = { from: '', to: '' };
    const answers: Promise<void>[] = [];
    page.on('response', (response) => {
      const { pathname, searchParams } = new URL(response.url());
      if (!pathname.startsWith('/api/v1/analytics/') || !searchParams.has('from') || searchParams.has('format')) return;
      if (!response.headers()['content-type']?.startsWith('application/json')) return;
      const read = async () => {
        const { from, to } = (await response.json()) as { from: string; to: string | null };
        range = { from, to: to ?? new Date().toISOString() };
      };
      answers.push(read());
    });
    await signIn(page, key);
    const trace: string[] = [];
    for (let click = 0; click < CLICKS; click++) {
      await loaded(page);
      await Promise.all(answers.splice(0));
      const at = parseLocation(new URL(page.url()).hash);
      const isWithin = ({ timestamp }: Receipt) =>
        Date.parse(timestamp) >= Date.parse(range.from) && Date.parse(timestamp) < Date.parse(range.to);
      const counted = all.filter((receipt) => isSelected(at, receipt) && isWithin(receipt));
      const where = `click ${click}, seed ${SEED}: ${trace.slice(-5).join(' → ')}`;
      await compare(page, at, counted, where);
      if (click % CSV_EVERY === 0) await compareFile(page, counted, where);

      const links = await choices(page).all();
      // Back to the beginning from where nothing leads on, and now and then from anywhere.
      if (links.length === 0 || random() < 0.08) {
        trace.push('#/');
        await page.evaluate(() => {
          location.hash = '#/';
        });
        continue;
      }
      const link = pick(links);
      trace.push((await link.getAttribute('href')) ?? (await link.innerText()));
      await link.click();
    }
  });
}, 900_000);

/** Waits until each panel shows what was requested last. A click is drawn in the frame after it. */
async function loaded(page: Page): Promise<void> {
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  await page.locator('.figures, .ranking, .empty, .title').first().waitFor();
  await page.waitForFunction(() => document.querySelectorAll('[aria-busy="true"], .body.stale').length === 0);
}

async function compare(page: Page, at: PageLocation, counted: Receipt[], where: string): Promise<void> {
  const proven = counted.filter(({ operator }) => operator !== null).length;
  if ((await page.locator('.figures').count()) > 0) {
    expect(number(await page.locator('.figure.first .value').innerText()), where).toBe(counted.length);
    const parts = await page.locator('.proven-part').innerText();
    expect(parts.replaceAll(',', ''), where).toContain(`${proven} proven`);
    expect(parts.replaceAll(',', ''), where).toContain(`${counted.length - proven} unproven`);
  }
  if (at.view.name === 'overview') {
    const services = KEYS.services as Key;
    expect(
      number(
        await figure(page, /^AI services/)
          .locator('.value')
          .innerText(),
      ),
      where,
    ).toBe(distinct(counted, services));
  }
  for (const [list, key] of Object.entries(KEYS)) {
    const isList = at.view.name === 'list' && at.view.list === list;
    const table = isList ? page.locator('.listed .ranking') : page.locator(`.panel.${list} .ranking`);
    if ((await table.count()) !== 1) continue;
    const counts = new Map<string, number>();
    for (const receipt of counted) counts.set(key(receipt), (counts.get(key(receipt)) ?? 0) + 1);
    const rows = await table.locator('tbody tr').evaluateAll((found) =>
      found.map((row) => ({
        uses: row.querySelector('td.number:not(.wide)')?.firstChild?.textContent ?? '',
        name: row.querySelector('th')?.textContent ?? '',
      })),
    );
    // Which row is whose is a test of lists; here each number is one of the model's, once.
    const left = [...counts.values()].sort((one, other) => other - one);
    for (const { uses, name } of rows) {
      const found = left.indexOf(number(uses));
      expect(found, `${where}: ${list} has ${name} with ${uses}, the model ${left}`).not.toBe(-1);
      left.splice(found, 1);
    }
    if (isList) continue;
    const most = [...counts.values()].sort((one, other) => other - one).slice(0, rows.length);
    expect(
      rows.map(({ uses }) => number(uses)).sort((one, other) => other - one),
      `${where}: ${list}`,
    ).toEqual(most);
  }
}

/** The file of the first list on show adds up to what the page counts. */
async function compareFile(page: Page, counted: Receipt[], where: string): Promise<void> {
  const button = page
    .getByRole('button', { name: /^Download CSV: (Top|Content|AI services|Models|Operators)/ })
    .first();
  if ((await button.count()) === 0 || !(await button.isEnabled())) return;
  const [file] = await Promise.all([page.waitForEvent('download'), button.click()]);
  const [head = '', ...lines] = readFileSync(await file.path(), 'utf8')
    .trimEnd()
    .split('\r\n');
  // Numbers come behind texts, in which a comma may be.
  const column = head.split(',').length - head.split(',').indexOf('receiptCount');
  const sum = lines.reduce((sum, line) => sum + Number(line.split(',').at(-column)), 0);
  expect(sum, `${where}: ${file.suggestedFilename()}`).toBe(counted.length);
}
