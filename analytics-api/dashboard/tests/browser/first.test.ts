// From nothing to the first number, by clicks: what a publisher does on the first day.

import { randomInt } from 'node:crypto';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Dns, dns } from './dns';
import { type Provider, provider } from './provider';
import { clients } from './sample';
import { type Service, start } from './service';
import { accessible, type Visit, visit } from './visit';

const CLICKS_MAX = 15;

let names: Dns;
let identities: Provider;

beforeAll(async () => {
  names = await dns();
  identities = await provider();
});

afterAll(() => {
  names?.close();
  identities?.close();
});

/** A visitor's clicks, in the fields of forms too. */
class Clicks {
  made = 0;

  constructor(private readonly page: Page) {}

  async press(name: string): Promise<void> {
    this.made++;
    await this.page.getByRole('button', { name }).click();
  }

  async fill(label: string | RegExp, text: string): Promise<void> {
    this.made++;
    await this.page.getByLabel(label, { exact: true }).fill(text);
  }

  async follow(name: string): Promise<void> {
    this.made++;
    await this.page.getByRole('link', { name }).click();
  }
}

/** What follows the sign-in of who has no account or domain yet; `domain` is claimed. */
async function firstNumber(page: Page, clicks: Clicks, service: Service, domain: string): Promise<void> {
  await page.getByRole('heading', { name: 'First steps', level: 1 }).waitFor();
  await page.getByText('0 of 3 steps done.').waitFor();
  await accessible(page, 'first steps');
  await clicks.fill('Domain', domain);
  await clicks.press('Show what to publish');
  const value = await page.getByLabel('Value', { exact: true }).inputValue();
  names.records.set(`_service-verification.${domain}`, value);
  await clicks.press('Check now');
  await page.getByText(`${domain} is yours.`).waitFor();
  await page.getByText('1 of 3 steps done.').waitFor();

  await clicks.fill(/^Or paste addresses/, `https://${domain}/first`);
  await clicks.press('Look at them');
  await clicks.press('List 1 entry');
  await page.getByText('2 of 3 steps done.').waitFor();

  await clicks.press('Try a test receipt');
  await page.getByText('A receipt like this is accepted.').waitFor();
  expect(await page.locator('.step .pairs').innerText()).toMatch(/Signature\npassed/);
  await accessible(page, 'a test receipt');

  const [sender] = clients();
  if (!sender) throw new Error('there are clients');
  const entries = await page.evaluate(async () => (await fetch('/api/v1/publisher/entries')).json());
  const entryId = (entries as { entries: { entryId: string }[] }).entries[0]?.entryId ?? '';
  const use = { entryId, url: `https://${domain}/first`, publisher: domain, purpose: 'training' } as const;
  await service.send(sender.signer, [{ ...use, timestampMs: Date.now() - 1000 }]);
  await page.getByText('1 receipt so far.').waitFor();
  await page.getByText('3 of 3 steps done.').waitFor();
  await clicks.follow('See the numbers');
  // The test receipt isn't among them.
  await expect.poll(() => page.locator('.figure.first .value').innerText()).toBe('1');
  expect(clicks.made).toBeLessThanOrEqual(CLICKS_MAX);
}

/** Runs `work` in a browser, at a service that nobody has used. */
async function atFresh(
  settings: Record<string, string>,
  work: (visit: Visit, service: Service) => Promise<void>,
): Promise<void> {
  // Where people come back to is known before the service is. Systems give ports from 32768 on by
  // themselves, so nobody else gets this one.
  const port = randomInt(20_000, 32_000);
  const own = {
    RECEIPTS_OUTBOUND_TEST_RESOLVER: names.address,
    RECEIPTS_PUBLISHER_PUBLIC_URL: `http://127.0.0.1:${port}`,
  };
  const { service, stop } = await start({ ...settings, ...own }, ['gateway', 'metrics'], port);
  // The provider's certificate is of an authority of its own.
  const options = { ignoreHTTPSErrors: true };
  await visit(service.addresses.publisher, options, (visit) => work(visit, service)).finally(stop);
}

it('leads from a login link to the first number', () =>
  atFresh({}, async ({ page, allow }, service) => {
    // Numbers before there is a domain.
    allow(403);
    const clicks = new Clicks(page);
    await page.goto(service.loginLink('owner'));
    await clicks.press('Sign in');
    await firstNumber(page, clicks, service, 'fresh.example');
  }));

it('leads from an identity provider to the first number', () =>
  atFresh(identities.settings, async ({ page, allow, allowOrigin }, service) => {
    // Numbers before there is a domain; the icon and the font that the provider's pages want.
    allow(403, 404, 0);
    for (const origin of [identities.issuer, 'https://fonts.googleapis.com']) allowOrigin(origin);
    const clicks = new Clicks(page);
    await page.goto('/dashboard');
    await clicks.follow('sign in with your account');
    await page.locator('input[name=login]').fill('anna');
    await page.locator('input[name=password]').fill('any');
    await page.locator('button[type=submit]').click();
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.locator('.who').waitFor();
    expect(page.url().startsWith(service.addresses.publisher)).toBe(true);
    await firstNumber(page, clicks, service, 'anna.example');

    // Signed out, the old cookie is worth nothing; the provider knows anna still.
    const [cookie] = await page.context().cookies(service.addresses.publisher);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('API key').waitFor();
    const stolen = await fetch(`${service.addresses.publisher}/api/v1/auth/session`, {
      headers: { cookie: `${cookie?.name}=${cookie?.value}`, 'sec-fetch-site': 'same-origin' },
    });
    expect(stolen.status).toBe(401);
    await page.getByRole('link', { name: 'sign in with your account' }).click();
    // It lets a program on this machine in only by consent.
    await page.getByRole('button', { name: 'Continue' }).click();
    await expect.poll(() => page.locator('.figure.first .value').innerText()).toBe('1');
  }));
