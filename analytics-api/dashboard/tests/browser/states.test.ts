// Every view in every state: on a phone and on a wide screen, light and dark, nothing is wider than
// the screen, and axe finds nothing serious. STATE_PICTURES=folder stores a picture of each.
// Without it, a test run checks four views at one width.

import type { Page, Route } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { articles, clients, fill } from './sample';
import { type Service, start } from './service';
import { accessible, visit } from './visit';

const PICTURES = process.env.STATE_PICTURES;
const WIDTHS = PICTURES ? [1440, 900, 390] : [390];
const SCHEMES = PICTURES ? (['light', 'dark'] as const) : (['light'] as const);
const FEW = ['#/', '#/services', '#/settings/domains', '#/settings/services'];

let service: Service;
let stop: () => Promise<void>;
let base: string;
let receiptId: string;

beforeAll(async () => {
  // A browser sends a session to one address alone.
  ({ service, stop } = await start({}, ['gateway', 'metrics']));
  base = service.addresses.publisher;
  const key = service.key('--scope', 'read,write,erase');
  service.setTier('enterprise');
  const [sender] = await fill(service, key, 300, 6);
  const [article] = articles();
  if (!sender || !article) throw new Error('there are some');
  await service.sendForged(sender, { ...article, timestampMs: Date.now() - 1000, purpose: 'training' });
  const asked = await service.ask('/api/v1/analytics/receipts?limit=1', key);
  receiptId = ((await asked.json()) as { receipts: { receiptId: string }[] }).receipts[0]?.receiptId ?? '';
  await visit(base, {}, async ({ page }) => {
    await enter(page);
    // What only people make.
    await page.evaluate(async () => {
      const { csrfToken } = await (await fetch('/api/v1/auth/session')).json();
      const headers = { 'x-csrf-token': csrfToken, 'content-type': 'application/json' };
      for (const [path, body] of [
        ['auth/invitations', { role: 'reader' }],
        ['publisher/erasures', { researcherId: 'researcher-of-nobody' }],
        ['verification/generate', { domain: 'daily.example', method: 'dns' }],
      ] as const) {
        const response = await fetch(`/api/v1/${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
        if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
      }
    });
  });
});

afterAll(() => stop?.());

async function enter(page: Page): Promise<void> {
  await page.goto(service.loginLink('owner'));
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.locator('.top').waitFor();
}

type Reviver = (name: string, value: unknown) => unknown;

const NAMES = /^(name|title|organization|operator|modelId|url|email|summary|detail|clientName|label|subject|found)$/;
const LONG = 'Researchinstitute-of-a-very-long-name and of many words ';
const longer: Reviver = (name, value) =>
  typeof value === 'string' && value && NAMES.test(name)
    ? name === 'operator'
      ? `${'a-long-label-of-a-domain.'.repeat(7)}example`
      : `${value} ${LONG.repeat(4)}`.slice(0, 250)
    : value;
const greater: Reviver = (name, value) =>
  typeof value === 'number' && value > 0 && !/Days|Percent|Hours|ttl/.test(name) ? value * 2_434_211 : value;
const emptied: Reviver = (_, value) => (Array.isArray(value) ? [] : typeof value === 'number' ? 0 : value);

const altered =
  (reviver: Reviver) =>
  async (route: Route): Promise<void> => {
    // As the browser sends it: without, the service refuses the session.
    const response = await route.fetch({
      headers: { ...route.request().headers(), 'sec-fetch-site': 'same-origin' },
      // The service ends connections that were idle.
      maxRetries: 3,
    });
    const text = await response.text();
    const isJson = response.headers()['content-type']?.startsWith('application/json');
    await route.fulfill({ response, body: isJson ? JSON.stringify(JSON.parse(text, reviver)) : text });
  };
const refused =
  (status: number, code: string, detail: string) =>
  (route: Route): Promise<void> =>
    route.fulfill({
      status,
      headers: { 'content-type': 'application/problem+json', 'retry-after': '30' },
      body: JSON.stringify({ code, detail }),
    });

/** What becomes of requests for numbers and settings. */
const STATES: Record<string, ((route: Route) => Promise<void>) | null> = {
  usual: null,
  empty: altered(emptied),
  loading: async () => {},
  'long-names': altered(longer),
  'ten-digits': altered(greater),
  outage: (route) => route.abort('connectionrefused'),
  slow: refused(503, 'warehouse_unavailable', 'the numbers take too long to read; try again in 30 s'),
  refused: refused(403, 'insufficient_role', 'your role is reader; owners and editors may see this'),
  limited: refused(429, 'rate_limited', '60 requests a minute are allowed'),
};

const isData = (url: URL) =>
  url.pathname.startsWith('/api/') && !/\/(auth\/session|analytics\/live)$/.test(url.pathname);

/** Waits until nothing changes any more: the page, or the wait of a load that never ends. */
async function still(page: Page, state: string): Promise<void> {
  await page.locator('.panel, .steps, .title, .failed, .console h1').first().waitFor();
  if (state === 'loading') await page.waitForTimeout(600);
  else
    await page
      .waitForFunction(() => document.querySelectorAll('[aria-busy="true"]').length === 0)
      .catch(() => {
        throw new Error(`${state}: ${page.url()} is busy for ever`);
      });
}

async function check(page: Page, where: string): Promise<void> {
  if (PICTURES) await page.screenshot({ path: `${PICTURES}/${where}.png`, fullPage: true });
  else await accessible(page, where);
  const [page_, screen] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  expect.soft(page_, `${where} is wider than its screen`).toBeLessThanOrEqual(screen ?? 0);
}

const fileName = (hash: string) =>
  hash
    .replaceAll(/[0-9a-f]{8}-[-0-9a-f/]+/g, 'one/')
    .replaceAll(/[^a-z]+/g, '-')
    .replaceAll(/^-|-$/g, '') || 'overview';

describe.each(SCHEMES)('%s', (colorScheme) => {
  const sizes = WIDTHS.map((width) => ({ viewport: { width, height: 900 }, colorScheme }));
  const hashes = (sections: string[]) => {
    const [client] = clients();
    return [
      '#/',
      '#/content',
      '#/services',
      '#/models',
      '#/operators',
      `#/content/${articles()[0]?.entryId}`,
      `#/services/${client?.signer.client.id}`,
      ...sections,
      `#/settings/receipts/${receiptId}`,
    ];
  };

  it.each(sizes)(
    'views fit $viewport.width pixels in every state',
    (options) =>
      visit(base, options, async ({ page, allow }) => {
        allow(0, 403, 429, 503);
        await enter(page);
        await page.goto('/dashboard#/settings');
        const links = page.locator('.sections a');
        await links.first().waitFor();
        const views = hashes(await links.evaluateAll((all) => all.map((link) => link.getAttribute('href') ?? '')));
        for (const [state, answer] of Object.entries(STATES)) {
          await page.unrouteAll({ behavior: 'ignoreErrors' });
          if (answer) await page.route(isData, answer);
          // Nothing is left of the state before.
          await page.goto('about:blank');
          for (const hash of PICTURES ? views : FEW) {
            await page.goto(`/dashboard${hash}`);
            await still(page, state);
            // Lists that wait for it stay grey.
            if (state === 'limited' && FEW.includes(hash)) await page.getByText('Too many requests').first().waitFor();
            await check(page, `${fileName(hash)}-${state}-${options.viewport.width}-${colorScheme}`);
          }
        }
        await page.unrouteAll({ behavior: 'ignoreErrors' });
      }),
    900_000,
  );

  it.each(sizes)('the sign-in fits $viewport.width pixels in every state', (options) =>
    visit(base, options, async ({ page, allow }) => {
      allow(0, 401, 403, 429, 503);
      const name = (state: string) => `sign-in-${state}-${options.viewport.width}-${colorScheme}`;
      await page.goto('/dashboard');
      await page.getByLabel('API key').waitFor();
      await check(page, name('usual'));
      for (const [state, answer] of Object.entries({
        outage: STATES.outage,
        wrong: refused(401, 'invalid_api_key', ''),
        expired: refused(401, 'expired_api_key', ''),
        refused: refused(403, 'insufficient_scope', 'this address needs the scope “read”; the key has “write”'),
        limited: STATES.limited,
      })) {
        await page.route(isData, answer as (route: Route) => Promise<void>);
        await page.getByLabel('API key').fill('rcpt_any');
        await page.keyboard.press('Enter');
        await page.getByRole('alert').locator('.failed').waitFor();
        await check(page, name(state));
        await page.unrouteAll();
        await page.reload();
      }
    }),
  );

  it.each(sizes)('an ended session fits $viewport.width pixels', (options) =>
    visit(base, options, async ({ page, allow }) => {
      allow(401);
      await enter(page);
      await page.goto('/dashboard#/content');
      await still(page, 'usual');
      await page.route((url) => url.pathname.startsWith('/api/'), refused(401, 'no_session', ''));
      await page.getByRole('button', { name: 'Refresh' }).click();
      await page.getByText('Your session has ended').waitFor();
      await check(page, `sign-in-session-ended-${options.viewport.width}-${colorScheme}`);
      await page.unrouteAll();
    }),
  );
});
