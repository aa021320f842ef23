// The console, by clicks, against real services and a DNS server of its own.

import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Dns, dns } from './dns';
import { type Service, start } from './service';
import { accessible, visit } from './visit';

let service: Service;
let stop: () => Promise<void>;
let names: Dns;
let base: string;

beforeAll(async () => {
  names = await dns();
  const settings = { RECEIPTS_OUTBOUND_TEST_RESOLVER: names.address };
  // A browser sends a session to one address alone.
  ({ service, stop } = await start(settings, ['gateway', 'metrics']));
  base = service.addresses.publisher;
  service.key();
  service.setTier('enterprise');
});

afterAll(async () => {
  await stop?.();
  names?.close();
});

/** Signs a person in by a link, as this role, and goes to `hash`. */
async function enter(page: Page, role: string, hash: string): Promise<void> {
  await page.goto(service.loginLink(role));
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.locator('.top').waitFor();
  await page.goto(`/dashboard${hash}`);
  await page.locator('.console h1').waitFor();
  await quiet(page);
}

/** Waits until no panel is on its way. */
const quiet = (page: Page) => page.waitForFunction(() => document.querySelectorAll('[aria-busy="true"]').length === 0);

/** Changes what is stored, where waiting for it would take minutes. */
function store(statement: string, ...values: (string | number)[]): void {
  const change =
    'import sqlite3,sys; d=sqlite3.connect(sys.argv[1], timeout=30); n=d.execute(sys.argv[2], sys.argv[3:]).rowcount; d.commit(); assert n > 0, n';
  execFileSync('python3', ['-c', change, join(service.data, 'accounts.sqlite'), statement, ...values.map(String)]);
}

const entered = (
  role: string,
  hash: string,
  work: (page: Page, allow: (...statuses: number[]) => void) => Promise<void>,
  options: BrowserContextOptions = {},
) =>
  visit(base, options, async ({ page, allow }) => {
    await enter(page, role, hash);
    await work(page, allow);
  });

describe('the frame', () => {
  it('says who is signed in, leads between numbers and settings by keyboard, and signs out', () =>
    entered('editor', '#/settings', async (page) => {
      await page.getByRole('heading', { name: 'You and your account' }).waitFor();
      await page.getByText('acc_').first().waitFor();
      expect(await page.locator('.pairs').innerText()).toContain('editor');
      expect(await page.locator('.pairs').innerText()).toMatch(/Requests\n[\d,]+ of [\d,]+ left/);
      await accessible(page, 'account');
      expect(await page.title()).toBe('Account · Receipts');

      await page.getByRole('link', { name: 'Domains' }).focus();
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { name: 'Domains', level: 1 }).waitFor();
      expect(await page.evaluate(() => document.activeElement?.textContent)).toBe('Domains');
      await page.getByRole('link', { name: 'Numbers' }).click();
      await page.locator('.figures').waitFor();
      await page.getByRole('link', { name: 'Settings' }).click();
      await page.getByRole('heading', { name: 'Account', level: 1 }).waitFor();

      await page.locator('.who summary').click();
      await accessible(page, 'who');
      await page.getByRole('button', { name: 'Sign out' }).click();
      await page.getByLabel('API key').waitFor();
      expect(await page.evaluate(() => [sessionStorage.length, localStorage.length])).toEqual([0, 0]);
    }));

  it('comes back to where a person was whose session ended', () =>
    entered('owner', '#/settings/domains', async (page, allow) => {
      allow(401);
      store('UPDATE sessions SET ends_at_ms = ? WHERE ends_at_ms > ?', Date.now() - 1000, Date.now());
      await page.getByRole('link', { name: 'Account' }).click();
      await page.getByText('Your session has ended').waitFor({ timeout: 20_000 });
      await page.goto(service.loginLink('owner'));
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByRole('heading', { name: 'Account', level: 1 }).waitFor();
      expect(page.url()).toBe(`${base}/dashboard#/settings`);
      expect(await page.evaluate(() => sessionStorage.length)).toBe(0);
    }));

  it('is for people: a key sees the numbers, and how to sign in', () =>
    visit(base, {}, async ({ page }) => {
      await page.goto('/dashboard#/settings');
      await page.getByLabel('API key').fill(service.key());
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByText('Settings are for people').waitFor();
      expect(await page.getByRole('navigation', { name: 'Settings' }).getByRole('link').count()).toBe(0);
      await accessible(page, 'with a key');
    }));

  it('names an address that isn’t one', () =>
    entered('reader', '#/settings/none', async (page) => {
      await page.getByRole('heading', { name: 'There is no such page' }).waitFor();
    }));
});

describe('domains', () => {
  it('shows the record, what was found instead, and that it is proven', () =>
    entered('editor', '#/settings/domains', async (page) => {
      await page.getByLabel('Domain', { exact: true }).fill('https://Daily.example/news');
      await page.getByRole('button', { name: 'Show what to publish' }).click();
      await page.getByRole('heading', { name: 'Show that daily.example is yours' }).waitFor();
      const proof = page.locator('.proof');
      expect(await proof.getByLabel('Name', { exact: true }).inputValue()).toBe('_service-verification.daily.example');
      const value = await proof.getByLabel('Value', { exact: true }).inputValue();
      expect(value).toMatch(/^service-verification=[0-9a-f]{64}$/);
      await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
      await proof.getByRole('button', { name: 'Copy: Value' }).click();
      await proof.getByText('Copied').waitFor();
      expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(value);
      await page.locator('.things').getByText('Waiting for its record').waitFor();

      names.records.set('_service-verification.daily.example', 'service-verification=0000');
      await proof.getByRole('button', { name: 'Check now' }).click();
      await proof.getByText('Not found yet.').waitFor();
      await proof.locator('.looked').getByText('service-verification=0000').waitFor();
      await accessible(page, 'a domain that isn’t proven');

      names.records.set('_service-verification.daily.example', value);
      await proof.getByRole('button', { name: 'Check now' }).click();
      await proof.getByText('daily.example is yours.').waitFor();
      const row = page.getByRole('row', { name: /daily\.example/ });
      await row.getByText('Verified').waitFor();
      await accessible(page, 'a domain that is proven');

      // A renewal has a record of its own, and the domain stays verified meanwhile.
      await proof.getByRole('button', { name: 'Close: daily.example' }).click();
      await row.getByRole('button', { name: 'Renew: daily.example' }).click();
      expect(await proof.getByLabel('Value', { exact: true }).inputValue()).not.toBe(value);
      await proof.getByRole('button', { name: 'Check now' }).click();
      await proof.getByText('The new record wasn’t found yet.').waitFor();
      await proof.getByRole('button', { name: 'Close: daily.example' }).click();

      await row.getByRole('button', { name: 'Give back: daily.example' }).click();
      await page.keyboard.press('Escape');
      expect(await page.evaluate(() => document.activeElement?.getAttribute('aria-label'))).toBe(
        'Give back: daily.example',
      );
      await page.keyboard.press('Enter');
      await row.getByRole('button', { name: 'Give it back' }).click();
      await row.getByText('Given back').waitFor();
    }));

  it('says what is wrong with a name', () =>
    entered('owner', '#/settings/domains', async (page, allow) => {
      allow(400);
      await page.getByLabel('Domain', { exact: true }).fill('not a domain');
      await page.keyboard.press('Enter');
      await page.getByRole('alert').getByText('That wasn’t done.').waitFor();
      await accessible(page, 'a wrong name');
    }));

  it('explains to readers who may change them, without dead buttons', () =>
    entered('reader', '#/settings/domains', async (page) => {
      await page
        .getByRole('row', { name: /news\.example/ })
        .getByText('Verified')
        .waitFor();
      await page.getByText('Your role is reader. Editors and owners add and renew domains').waitFor();
      expect(await page.locator('main button').count()).toBe(0);
      await accessible(page, 'domains of a reader');
    }));
});
