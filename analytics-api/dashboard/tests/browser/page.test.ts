// The page in a real browser, against real services.

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, inject, it } from 'vitest';
import { PURPOSES } from '../../src/format';
import { articles, clients, HOSTILE } from './sample';
import { Service, start } from './service';
import { accessible, settled, signIn, visit } from './visit';

const API = '/api/v1/analytics';
const key = inject('key');
const service = new Service(inject('data'), inject('addresses'));
const base = service.addresses.analytics;

const total = (page: Page) => page.locator('.figure.first .value').innerText();
const number = (text: string) => Number(text.replaceAll(',', ''));

/** What the API says to the request that the page itself made last. */
async function asked(page: Page, path: string, act: () => Promise<unknown>) {
  const [response] = await Promise.all([
    page.waitForResponse((response) => new URL(response.url()).pathname === `${API}${path}` && response.ok()),
    act(),
  ]);
  return { url: new URL(response.url()), body: await response.json() };
}

describe('serving', () => {
  it('allows the page nothing but its own files', async () => {
    const page = await fetch(`${base}/dashboard`);
    const policy = page.headers.get('content-security-policy');
    for (const part of [
      "default-src 'none'",
      "script-src 'self'",
      "style-src 'self'",
      "connect-src 'self'",
      "frame-ancestors 'none'",
    ]) {
      expect(policy).toContain(part);
    }
    expect(policy).not.toContain('unsafe');
    expect(page.headers.get('x-content-type-options')).toBe('nosniff');
    expect(page.headers.get('referrer-policy')).toBe('no-referrer');
    expect(page.headers.get('cross-origin-opener-policy')).toBe('same-origin');
    expect(page.headers.get('cache-control')).toBe('no-cache');
    const script = /src="([^"]+\.js)"/.exec(await page.text())?.[1] ?? '';
    const asset = await fetch(base + script);
    expect(asset.headers.get('content-encoding')).toBe('gzip');
    expect(asset.headers.get('cache-control')).toContain('immutable');
  });

  it('leads browsers from / to the page, and programs to the list of addresses', async () => {
    const browser = await fetch(`${base}/`, { headers: { accept: 'text/html,*/*;q=0.8' }, redirect: 'manual' });
    expect([browser.status, browser.headers.get('location')]).toEqual([303, '/dashboard']);
    const program = await fetch(`${base}/`);
    expect(program.headers.get('content-type')).toContain('json');
  });
});

describe('signing in', () => {
  it('tells what is wrong with a key, and keeps a right one in this tab alone', () =>
    visit(base, {}, async ({ page, allow }) => {
      allow(401);
      await page.goto('/dashboard');
      await accessible(page, 'sign-in');
      await page.getByLabel('API key').fill('rcpt_wrong');
      await page.keyboard.press('Enter');
      await page.getByRole('alert').getByText('This API key isn’t valid').waitFor();
      await accessible(page, 'wrong key');
      await page.getByLabel('API key').fill('ключ');
      await page.keyboard.press('Enter');
      await page.getByRole('alert').getByText('This API key isn’t valid').waitFor();
      expect(await page.evaluate(() => [sessionStorage.length, localStorage.length])).toEqual([0, 0]);

      await page.getByLabel('API key').fill(`  ${key} `);
      await page.keyboard.press('Enter');
      await page.locator('.figures').waitFor();
      const stored = await page.evaluate(() => [
        JSON.stringify({ ...localStorage }),
        document.cookie,
        location.href,
        document.documentElement.outerHTML,
      ]);
      for (const item of stored) expect(item).not.toContain(key);
      await page.reload();
      await page.locator('.figures').waitFor();

      await page.getByRole('button', { name: 'Sign out' }).click();
      await page.getByLabel('API key').waitFor();
      expect(await page.evaluate(() => sessionStorage.length)).toBe(0);
    }));

  it('sends each request once, and aborts none', () =>
    visit(base, {}, async ({ page }) => {
      const sent: string[] = [];
      const aborted: string[] = [];
      const numbers = (url: string) => url.replace(/.*(?=\/api\/)/, '');
      page.on('request', (request) => request.url().includes('/api/') && sent.push(numbers(request.url())));
      page.on('requestfailed', (request) => aborted.push(numbers(request.url())));
      await signIn(page, key);
      await settled(page);
      await page.getByText('on', { exact: true }).waitFor();
      // The trial of the key, six panels, the stream, and what came before it.
      expect(sent.length).toBe(9);
      expect(sent.filter((url, at) => sent.indexOf(url) !== at)).toEqual([]);
      expect(aborted).toEqual([]);
    }));

  it('takes a person’s session by a link, until they sign out, and gives it to no page of the documents', async () => {
    // A browser sends the session to one address alone.
    const { service, stop } = await start({}, ['gateway', 'metrics']);
    service.key();
    const base = service.addresses.publisher;
    await visit(base, {}, async ({ page, allow }) => {
      const link = service.loginLink();
      expect(link.startsWith(base)).toBe(true);
      // Whoever opens it only looks.
      expect((await fetch(link)).status).toBe(200);
      await page.goto(link);
      await page.getByText('as reader').waitFor();
      await accessible(page, 'login link');
      await page.getByRole('button', { name: 'Sign in' }).click();
      await settled(page);
      expect(page.url()).toBe(`${base}/dashboard`);
      // Chromium keeps the cookie at a loopback address, out of every script's sight.
      const [cookie] = await page.context().cookies();
      const { name, httpOnly, secure, sameSite, path } = cookie ?? {};
      expect({ name, httpOnly, secure, sameSite, path }).toEqual({
        name: '__Host-receipts',
        httpOnly: true,
        secure: true,
        sameSite: 'Strict',
        path: '/',
      });
      expect(await page.evaluate(() => document.cookie)).toBe('');
      await page.reload();
      await settled(page);
      allow(401, 403, 404);
      const ask = (method: string, path: string) =>
        page.evaluate(async ([method, path]) => (await fetch(path ?? '', { method })).status, [method, path]);
      expect(await ask('GET', '/api/v1/publisher/data')).toBe(200);
      expect(await ask('POST', '/api/v1/verification/generate')).toBe(403);
      await page.goto('/docs/publisher/');
      expect(await ask('GET', '/api/v1/publisher/data')).toBe(401);
      await page.goto('/dashboard');
      await settled(page);
      await page.getByRole('button', { name: 'Sign out' }).click();
      await page.getByLabel('API key').waitFor();
      await expect.poll(async () => (await page.context().cookies()).length).toBe(0);
      await page.reload();
      await page.getByLabel('API key').waitFor();
      await page.goto(link);
      await page.getByRole('heading', { name: 'This link can’t be used' }).waitFor();
    }).finally(stop);
  });

  it('says that a key has expired, at the door and inside', () =>
    visit(base, {}, async ({ page, allow }) => {
      allow(401);
      const mortal = service.key('--expires', '12h');
      await signIn(page, mortal);
      await settled(page);
      const id = mortal.split('_')[1];
      const now = Date.now();
      const change =
        'import sqlite3,sys; d=sqlite3.connect(sys.argv[1]); n=d.execute("UPDATE api_keys SET expires_at_ms=? WHERE id=?", (int(sys.argv[2]), sys.argv[3])).rowcount; d.commit(); assert n == 1, n';
      execFileSync('python3', ['-c', change, join(service.data, 'accounts.sqlite'), String(now - 1000), id ?? '']);
      await expect
        .poll(
          async () => {
            await page
              .getByRole('button', { name: 'Refresh' })
              .click({ timeout: 5_000 })
              .catch(() => {});
            return page
              .getByRole('alert')
              .innerText({ timeout: 5_000 })
              .catch(() => '');
          },
          { interval: 500 },
        )
        .toContain('This API key has expired');
      expect(await page.evaluate(() => sessionStorage.length)).toBe(0);
      await page.getByLabel('API key').fill(mortal);
      await page.keyboard.press('Enter');
      await page.getByRole('alert').getByText('This API key has expired').waitFor();
    }));

  it('says that a key lacks the right to read', () =>
    visit(base, {}, async ({ page, allow }) => {
      allow(403);
      await page.goto('/dashboard');
      await page.getByLabel('API key').fill(service.key('--scope', 'write'));
      await page.keyboard.press('Enter');
      await page.getByRole('alert').getByText('This API key may not read').waitFor();
    }));
});

describe('the documents of the APIs', () => {
  it('are shown by a page that loads and tells nothing elsewhere', async () => {
    for (const of of [base, service.addresses.publisher]) {
      await visit(of, {}, async ({ page }) => {
        await page.goto(of === base ? '/docs/analytics/' : '/docs/publisher/');
        await page.locator('.opblock').first().waitFor();
        await page.locator('.opblock-summary').first().click();
        await page.locator('.opblock-body').first().waitFor();
      });
    }
  });
});

describe('the selection', () => {
  it('changes range, interval and zone for every panel, and is in the address', () =>
    visit(base, {}, async ({ page }) => {
      await signIn(page, key);
      await settled(page);
      const week = await asked(page, '/dashboard', () => page.getByRole('button', { name: 'Refresh' }).click());
      await settled(page);
      expect(number(await total(page))).toBe(week.body.totalReceipts);
      expect(week.url.searchParams.get('tz')).toBe('Europe/Berlin');

      const day = await asked(page, '/dashboard', () => page.getByRole('radio', { name: '24 hours' }).check());
      await settled(page);
      expect(day.body.totalReceipts).toBeLessThan(week.body.totalReceipts);
      expect(number(await total(page))).toBe(day.body.totalReceipts);
      expect(page.url()).toContain('range=24h');
      // 24 hours of a clock, the present one among them.
      expect(await page.getByRole('slider').getAttribute('aria-valuemax')).toBe('23');

      const zone = page.getByRole('combobox', { name: /Time zone/ });
      const series = await asked(page, '/timeseries', async () => {
        await zone.selectOption('Asia/Kathmandu');
      });
      expect(series.body.tz).toBe('Asia/Kathmandu');
      expect(page.url()).toContain('tz=Asia/Kathmandu');
      expect(await zone.inputValue()).toBe('Asia/Kathmandu');

      const minutes = await asked(page, '/timeseries', async () => {
        await page.getByRole('radio', { name: 'Last hour' }).check();
      });
      expect(minutes.body.interval).toBe('minute');
      await page.goBack();
      await expect.poll(() => page.url()).toContain('range=24h');
      await page.reload();
      await settled(page);
      expect(await page.getByRole('radio', { name: '24 hours' }).isChecked()).toBe(true);
    }));

  it('takes days, and says when they are the wrong way round', () =>
    visit(base, {}, async ({ page }) => {
      await signIn(page, key, '#/?tz=UTC');
      await settled(page);
      await page.getByRole('radio', { name: 'Custom' }).check();
      const today = new Date().toISOString().slice(0, 10);
      const before = new Date(Date.now() - 3 * 86_400_000).toISOString().slice(0, 10);
      await page.getByLabel('From').fill(today);
      await page.getByLabel('To, included').fill(before);
      await page.getByText('The first day is after the last').waitFor();
      await accessible(page, 'custom range');
      await page.getByLabel('From').fill(before);
      const answer = await asked(page, '/dashboard', async () => {
        await page.getByLabel('To, included').fill(before);
        await page.getByRole('button', { name: 'Show' }).click();
      });
      expect(answer.body.from).toBe(`${before}T00:00:00.000Z`);
      expect(Date.parse(answer.body.to) - Date.parse(answer.body.from)).toBe(86_400_000);
      await settled(page);
      expect(number(await total(page))).toBe(answer.body.totalReceipts);
    }));

  it('cancels what was asked before', () =>
    visit(base, {}, async ({ page }) => {
      await signIn(page, key);
      await settled(page);
      const cancelled: string[] = [];
      page.on('requestfailed', (request) => cancelled.push(request.failure()?.errorText ?? ''));
      await page.route(`**${API}/timeseries**`, async (route) => {
        // The first of them never answers.
        if (!route.request().url().includes('interval=day')) return;
        await route.continue();
      });
      await page.getByRole('radio', { name: '24 hours' }).check();
      await page.getByRole('radio', { name: '30 days' }).check();
      await settled(page);
      expect(cancelled).toContain('net::ERR_ABORTED');
      expect(await page.getByRole('slider').getAttribute('aria-label')).toContain('30 days');
    }));
});

/** The headline's parts, and what the chart says of the whole range. */
async function totals(page: Page) {
  const parts = /([\d,]+) proven \(.*\) · ([\d,]+) unproven/.exec(await page.locator('.proven-part').innerText());
  const reading = await page.locator('.reading').innerText();
  const charted = (name: string) => number(new RegExp(`${name}\\s+([\\d,]+)`).exec(reading)?.[1] ?? '');
  return {
    name: await page.locator('.figure.first dt').innerText(),
    all: number(await total(page)),
    proven: number(parts?.[1] ?? ''),
    unproven: number(parts?.[2] ?? ''),
    charted: charted('Uses'),
    provenCharted: charted('Proven'),
  };
}

describe('one total', () => {
  const expected = (all: number, proven: number) => ({
    name: 'Uses',
    all,
    proven,
    unproven: all - proven,
    charted: all,
    provenCharted: proven,
  });

  it('is that of all receipts on each view, in the API and in CSV, with the proven part beside it', () =>
    visit(base, {}, async ({ page }) => {
      // Days that are over: nothing is added to them.
      const day = (ago: number) => new Date(Date.now() - ago * 86_400_000).toISOString().slice(0, 10);
      const range = `range=${day(6)}..${day(2)}&tz=UTC`;
      const selection = `from=${day(6)}&to=${day(1)}&tz=UTC`;
      const api = async (path: string) => (await service.ask(`${API}${path}`, key)).json();
      await signIn(page, key, `#/?${range}`);
      await settled(page);
      const dashboard = (await api(`/dashboard?${selection}`)) as {
        totalReceipts: number;
        uniqueClients: number;
        byTrust: { proven: { totalReceipts: number } };
      };
      const proven = dashboard.byTrust.proven.totalReceipts;
      expect(proven).toBeGreaterThan(0);
      expect(proven).toBeLessThan(dashboard.totalReceipts);
      expect(await totals(page)).toEqual(expected(dashboard.totalReceipts, proven));
      const clients = (await api(`/clients?${selection}&limit=100`)) as {
        totalClients: number;
        clients: { receiptCount: number }[];
      };
      expect(number(await page.locator('.figure:nth-child(2) .value').innerText())).toBe(clients.totalClients);
      expect(clients.totalClients).toBe(dashboard.uniqueClients);
      expect(clients.clients.reduce((sum, client) => sum + client.receiptCount, 0)).toBe(dashboard.totalReceipts);
      const csv = await (await service.ask(`${API}/dashboard?${selection}`, key, 'text/csv')).text();
      expect(csv).toContain(`totalReceipts,,,${dashboard.totalReceipts}\r\n`);
      expect(csv).toContain(`totalReceipts,proven,,${proven}\r\n`);

      for (const list of ['.content', '.services']) {
        const row = page.locator(`.panel${list} tbody tr`).first();
        const [listed, share] = (await row.locator('.number').last().innerText()).split('\n');
        await row.locator('a').click();
        await settled(page);
        const shown = await totals(page);
        expect(shown).toEqual(expected(number(listed ?? ''), shown.proven));
        expect(`${await page.locator('.proven-part').innerText()}`).toContain(share?.replace(' proven', '') ?? '');
        await page.goBack();
        await settled(page);
      }
    }));

  it('is of one client where two use one ID, on its row and on its page', () =>
    visit(base, {}, async ({ page }) => {
      await signIn(page, key);
      await settled(page);
      const rows = page.locator('.panel.services tbody tr', { hasText: 'AtlasBot' });
      const listed = await rows.evaluateAll((found) =>
        found.map((row) => [
          row.querySelector('.trust')?.textContent,
          row.querySelector('.number')?.firstChild?.textContent,
        ]),
      );
      expect(listed.map(([trust]) => trust).sort()).toEqual(['proven', 'unproven']);
      for (const [at, [trust, receipts]] of listed.entries()) {
        await rows.nth(at).locator('a').click();
        await page.getByRole('heading', { level: 1 }).getByText('AtlasBot').waitFor();
        await settled(page);
        const all = number(receipts ?? '');
        expect(await totals(page)).toEqual(expected(all, trust === 'proven' ? all : 0));
        expect(await page.locator('.facts .trust').allInnerTexts()).toEqual([trust]);
        await page.goBack();
        await settled(page);
      }
      await rows.first().locator('a').click();
      await settled(page);
      await page.getByRole('link', { name: 'All AI services with this ID' }).click();
      await settled(page);
      await page.getByRole('heading', { level: 1 }).getByText('ID of AI services').waitFor();
      expect(await page.locator('.facts .trust').allInnerTexts()).toEqual(listed.map(([trust]) => trust));
      const [one = 0, other = 0] = listed.map(([, receipts]) => number(receipts ?? ''));
      expect((await totals(page)).all).toBe(one + other);
      await accessible(page, 'client ID');
    }));

  it('is one number where receipts arrive between the requests of headline and chart', () =>
    visit(base, {}, async ({ page }) => {
      const [client] = clients();
      const [article] = articles();
      if (!client || !article) throw new Error('there are some');
      const publisher = 'between.example';
      const between = service.keyOf(publisher);
      const use = { ...article, url: `https://${publisher}/`, purpose: 'training' as const, publisher };
      const send = (receipts: number) =>
        service.send(
          client.signer,
          Array.from({ length: receipts }, (_, at) => ({ ...use, timestampMs: Date.now() - 1000 - at })),
        );
      await send(20);
      await service.counted(20, between);
      const dashboard = page.route(
        `**${API}/dashboard**`,
        async (route) => {
          const early = await route.fetch();
          await send(5);
          await service.counted(25, between);
          await route.fulfill({ response: early });
          arrived();
        },
        { times: 1 },
      );
      let arrived = () => {};
      const late = new Promise<void>((done) => {
        arrived = done;
      });
      await dashboard;
      await page.route(`**${API}/timeseries**`, async (route) => {
        await late;
        await route.continue();
      });
      await signIn(page, between);
      await settled(page);
      expect(await totals(page)).toEqual(expected(25, 0));
      await page.locator('.panel.content tbody a').first().click();
      await settled(page);
      expect(await totals(page)).toEqual(expected(25, 0));
    }));

  it('counts on when the first proven receipt arrives', () =>
    visit(base, {}, async ({ page }) => {
      const [stranger, registered] = clients();
      const [article] = articles();
      if (!stranger || !registered || !article) throw new Error('there are some');
      const publisher = 'first.example';
      const first = service.keyOf(publisher);
      await service.operator('first-lab.example', [registered.signer]);
      const use = { ...article, url: `https://${publisher}/`, purpose: 'inference' as const, publisher };
      const send = (signer: typeof registered.signer, receipts: number) =>
        service.send(
          signer,
          Array.from({ length: receipts }, (_, at) => ({ ...use, timestampMs: Date.now() - 1000 - at })),
        );
      await send(stranger.signer, 50);
      await service.counted(50, first);
      await signIn(page, first);
      await settled(page);
      expect(await totals(page)).toEqual(expected(50, 0));
      await send(registered.signer, 1);
      await service.counted(51, first);
      await page.getByRole('button', { name: 'Refresh' }).click();
      await expect.poll(() => total(page)).toBe('51');
      await settled(page);
      expect(await totals(page)).toEqual(expected(51, 1));
      await accessible(page, 'one proven receipt');

      // Each part alone is one click away, under the same name.
      const part = await asked(page, '/dashboard', () => page.getByRole('link', { name: '50 unproven' }).click());
      expect(part.url.searchParams.get('trust')).toBe('unproven');
      await settled(page);
      expect(await totals(page)).toEqual(expected(50, 0));
    }));
});

describe('the word for trust', () => {
  /** Texts of the words in `list` that are cut off anywhere, and how many there are in all. */
  const words = (page: Page, list: string) =>
    page.locator(`${list} .trust`).evaluateAll((found) => {
      const isCut = (word: Element) => {
        const { left, right, width } = word.getBoundingClientRect();
        if (width === 0 || word.scrollWidth > word.clientWidth + 1) return true;
        for (let around = word.parentElement; around; around = around.parentElement) {
          const box = around.getBoundingClientRect();
          const clips = getComputedStyle(around).overflowX !== 'visible' || around === document.documentElement;
          if (clips && (left < box.left - 0.5 || right > box.right + 0.5)) return true;
        }
        return false;
      };
      return {
        texts: [...new Set(found.map((word) => word.textContent))].sort(),
        cut: found.filter(isCut).length,
        all: found.length,
      };
    });

  it('is whole beside the longest names, on every screen and in print', async () => {
    const [stranger, registered] = clients();
    const [article] = articles();
    if (!stranger || !registered || !article) throw new Error('there are some');
    const publisher = 'long.example';
    const long = service.keyOf(publisher);
    service.setTier('enterprise', publisher);
    await service.operator('long-names-of-operators-are-domains-of-many-letters.example', [registered.signer]);
    for (const { signer } of [stranger, registered]) {
      signer.client.name = `Research ${'of a very long product name '.repeat(8)}`;
      signer.client.organization = 'Institute'.repeat(20);
      const use = {
        ...article,
        url: `https://${publisher}/${'long-'.repeat(80)}`,
        publisher,
        modelId: 'model'.repeat(40),
      };
      await service.send(
        signer,
        [1, 2, 3, 4].map((at) => ({ ...use, purpose: 'inference', timestampMs: Date.now() - at })),
      );
    }
    await service.counted(8, long);
    const both = ['proven', 'unproven'];
    for (const width of [1440, 900, 390]) {
      await visit(base, { viewport: { width, height: 900 } }, async ({ page }) => {
        await signIn(page, long);
        await settled(page);
        await page.locator('.live li').first().waitFor();
        for (const media of ['screen', 'print'] as const) {
          await page.emulateMedia({ media });
          const at = `${width} ${media}`;
          expect(await words(page, '.services tbody'), at).toEqual({ texts: both, cut: 0, all: 2 });
          if (media === 'screen') expect(await words(page, '.live ol'), at).toEqual({ texts: both, cut: 0, all: 8 });
          expect(await page.evaluate(() => document.documentElement.scrollWidth), at).toBe(width);
        }
        await page.emulateMedia({ media: 'screen' });
        await page.locator('.panel.content tbody a').first().click();
        await settled(page);
        await page.locator('.uses li').first().waitFor();
        for (const media of ['screen', 'print'] as const) {
          await page.emulateMedia({ media });
          const at = `entry ${width} ${media}`;
          expect(await words(page, '.wider tbody'), at).toEqual({ texts: both, cut: 0, all: 2 });
          expect(await words(page, '.uses'), at).toEqual({ texts: both, cut: 0, all: 8 });
          expect(await page.locator('.proven-part').innerText(), at).toBe('4 proven (50%) · 4 unproven');
          expect(await page.evaluate(() => document.documentElement.scrollWidth), at).toBe(width);
        }
        await page.emulateMedia({ media: 'screen' });
        await accessible(page, `long names at ${width}`);
        await page.locator('.wider tbody a').first().click();
        await settled(page);
        expect((await words(page, '.facts')).cut, `client ${width}`).toBe(0);
        expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(width);
      });
    }
  });
});

describe('the numbers', () => {
  it('come live within a moment, and hold still while paused', () =>
    visit(base, {}, async ({ page }) => {
      const [client] = clients();
      const [article] = articles();
      if (!client || !article) throw new Error('there are some');
      await signIn(page, key);
      await page.getByText('on', { exact: true }).waitFor();
      const lines = page.getByRole('list', { name: 'Newest uses' }).getByRole('listitem');
      const send = () =>
        service.send(client.signer, [
          { ...article, timestampMs: Date.now() - 100, purpose: 'research', modelId: 'live' },
        ]);
      const today = number(await page.locator('.today b').first().innerText());
      await send();
      await expect.poll(async () => number(await page.locator('.today b').first().innerText())).toBe(today + 1);
      await expect.poll(() => lines.first().innerText()).toContain(article.title);
      expect(await lines.first().innerText()).toContain('research');

      await page.getByRole('button', { name: 'Pause' }).click();
      const held = await lines.count();
      await send();
      await expect.poll(async () => number(await page.locator('.today b').first().innerText())).toBe(today + 2);
      expect(await lines.count()).toBe(held);
      await page.getByRole('button', { name: 'Go on' }).click();
      await expect.poll(() => lines.count()).toBe(held + 1);
    }));

  it('go on live where the stream broke off', () =>
    visit(base, {}, async ({ page }) => {
      const ids: (string | undefined)[] = [];
      await page.route(`**${API}/live**`, async (route) => {
        ids.push(route.request().headers()['last-event-id']);
        const totals = {
          totalReceipts: ids.length,
          uniqueClients: 1,
          byTrust: { proven: { totalReceipts: 0 }, unproven: { totalReceipts: ids.length } },
          completeThrough: new Date().toISOString(),
        };
        const body = `retry: 100\n\nid: event-${ids.length}\nevent: totals\ndata: ${JSON.stringify(totals)}\n\nid: torn`;
        await route.fulfill({ contentType: 'text/event-stream', body });
      });
      await signIn(page, key);
      await expect.poll(() => ids.length).toBeGreaterThan(2);
      expect(ids.slice(0, 3)).toEqual([undefined, 'event-1', 'event-2']);
    }));

  it('are downloaded as the API gives them', () =>
    visit(base, { acceptDownloads: true }, async ({ page }) => {
      await signIn(page, key);
      await settled(page);
      for (const [name, path] of [
        ['Over time', '/timeseries'],
        ['Top content', '/content'],
        ['Top AI services', '/clients'],
        ['Top models', '/models'],
        ['Rejected', '/refusals'],
      ]) {
        const wanted = page.waitForResponse(
          (response) =>
            new URL(response.url()).pathname === `${API}${path}` &&
            response.headers()['content-type']?.startsWith('text/csv') === true,
        );
        const [download, response] = await Promise.all([
          page.waitForEvent('download'),
          wanted,
          page.getByRole('button', { name: `Download CSV: ${name}` }).click(),
        ]);
        const [, fileName] = /filename="([^"]+)"/.exec(response.headers()['content-disposition'] ?? '') ?? [];
        expect(fileName).toMatch(new RegExp(`^${path?.slice(1)}(-from-\\d{4}-\\d\\d-\\d\\d.*)?\\.csv$`));
        expect(download.suggestedFilename()).toBe(fileName);
        const saved = readFileSync(await download.path(), 'utf8');
        const { pathname, search } = new URL(response.url());
        const again = await service.ask(pathname + search, key, 'text/csv');
        expect(saved, name).toBe((await again.text()).replaceAll(/,(cursor)?(?=\r\n)/g, ''));
        expect(saved.split('\r\n').length, name).toBeGreaterThan(1);
        // A spreadsheet would run it.
        expect(saved).not.toMatch(/(^|,)"?=/m);
      }
    }));

  it('show strangers’ text as text', () =>
    visit(base, {}, async ({ page }) => {
      await signIn(page, key);
      await settled(page);
      await page.getByRole('link', { name: HOSTILE.title }).first().click();
      await page.getByRole('heading', { level: 1 }).getByText(HOSTILE.title).waitFor();
      await settled(page);
      expect(await page.locator('main img, main script').count()).toBe(0);
      expect(await page.evaluate(() => document.activeElement?.tagName)).toBe('H1');
      await accessible(page, 'entry');
      const answer = await service.ask(`${API}/content/${HOSTILE.entryId}`, key);
      expect(number(await total(page))).toBe(((await answer.json()) as { totalReceipts: number }).totalReceipts);
      await page.locator('.wider a').first().click();
      await settled(page);
      await accessible(page, 'client');
      await page.getByRole('link', { name: 'Overview' }).click();
      await page.locator('.columns .live').waitFor();
    }));

  it('leave out what arrived before anybody had verified the domain, and say so', () =>
    visit(base, {}, async ({ page }) => {
      const [client] = clients();
      const [article] = articles();
      if (!client || !article) throw new Error('there are some');
      const publisher = 'late.example';
      const use = { ...article, url: 'https://late.example/lead', purpose: 'research' as const, publisher };
      const timestampMs = Date.now() - 100;
      await service.send(
        client.signer,
        [1, 2, 3].map((earlier) => ({ ...use, timestampMs: timestampMs - earlier })),
      );
      const late = service.keyOf(publisher);
      await service.counted(3, late);
      await signIn(page, late);
      await settled(page);
      expect(number(await total(page))).toBe(0);
      const panel = page.locator('.panel.totals');
      await panel.getByText('3 uses that were reported before the domain was first verified aren’t counted.').waitFor();
      await accessible(page, 'before the verification');
    }));

  it('say up to when they are complete, and when they aren’t', () =>
    visit(base, {}, async ({ page }) => {
      await signIn(page, key);
      await settled(page);
      expect(await page.locator('.watermark').innerText()).toMatch(/Complete through \d\d:\d\d:\d\d/);
      expect(await page.locator('.warning').count()).toBe(0);
      // Every answer says so: what was heard last counts.
      const answers = (url: URL) => url.pathname.startsWith(API) && !url.pathname.endsWith('/live');
      await page.route(answers, async (route) => {
        const response = await route.fetch();
        const headers = { ...response.headers(), 'x-incomplete': 'true' };
        await route.fulfill({ response, headers, json: { ...(await response.json()), incomplete: true } });
      });
      await page.getByRole('radio', { name: '24 hours' }).check();
      await page.getByRole('status').getByText('The last check found uses missing').waitFor();
      // Panels that are being loaded again are dimmed.
      await settled(page);
      await accessible(page, 'incomplete');
    }));

  it('are marked as old while the service doesn’t answer, and current again by themselves', () =>
    visit(base, {}, async ({ page, allow }) => {
      allow(0);
      let isDown = false;
      const isOfApi = (url: URL) => url.pathname.startsWith(API);
      await page.route(isOfApi, (route) => {
        if (isDown) return route.abort('connectionrefused');
        if (!route.request().url().includes('/live')) return route.continue();
        const byTrust = { proven: { totalReceipts: 0 }, unproven: { totalReceipts: 7 } };
        const totals = { totalReceipts: 7, uniqueClients: 1, byTrust, completeThrough: new Date().toISOString() };
        return route.fulfill({
          contentType: 'text/event-stream',
          body: `retry: 100\n\nevent: totals\ndata: ${JSON.stringify(totals)}\n\n`,
        });
      });
      await signIn(page, key);
      await settled(page);
      await page.locator('.watermark.complete').waitFor();
      const before = await total(page);
      isDown = true;
      // Nobody clicks anything: the stream breaks off.
      await page.locator('.watermark.stale').waitFor();
      const warning = page.getByRole('status').getByText('The service doesn’t answer.');
      await warning.waitFor();
      const light = (state: string) =>
        page.locator(`.watermark.${state} i`).evaluate((dot) => getComputedStyle(dot).backgroundColor);
      const warned = await light('stale');
      await page.getByRole('button', { name: 'Refresh' }).click();
      await expect.poll(() => page.locator('.body.stale').count()).toBe(6);
      // One warning for the page, and the numbers are still there.
      expect(await page.locator('.failed').count()).toBe(0);
      expect(await total(page)).toBe(before);
      await accessible(page, 'outage');
      await page.getByRole('button', { name: 'Dark' }).click();
      await accessible(page, 'outage, dark');
      await page.getByRole('button', { name: 'Dark' }).click();
      isDown = false;
      await page.locator('.watermark.complete').waitFor();
      await expect.poll(() => page.locator('.body.stale').count()).toBe(0);
      expect(await warning.count()).toBe(0);
      expect(await light('complete')).not.toBe(warned);
    }));

  it('are marked as those of another selection until the new ones come, and stay readable', () =>
    visit(base, {}, async ({ page }) => {
      await signIn(page, key);
      await settled(page);
      let release = () => {};
      const held = new Promise<void>((done) => {
        release = done;
      });
      const isNumbers = (url: URL) => url.pathname.startsWith(API) && !url.pathname.endsWith('/live');
      await page.route(isNumbers, async (route) => {
        await held;
        await route.continue();
      });
      await page.getByRole('radio', { name: '30 days' }).check();
      await page.getByRole('status').getByText('Loading…').waitFor();
      expect(await page.locator('.body.stale').count()).toBe(6);
      await accessible(page, 'dimmed');
      await page.getByRole('button', { name: 'Dark' }).click();
      await accessible(page, 'dimmed, dark');
      release();
      await settled(page);
      expect(await page.locator('.body.stale').count()).toBe(0);
      expect(await page.getByText('Loading…').count()).toBe(0);
    }));

  it('are none where there is no such page, entry or client', () =>
    visit(base, {}, async ({ page, allow }) => {
      allow(404);
      await signIn(page, key, '#/nowhere');
      const heading = page.getByRole('heading', { level: 1 });
      await heading.getByText('There is no such page').waitFor();
      await accessible(page, 'no such page');
      const nobody = '00000000-0000-4000-8000-000000000000';
      for (const [path, title] of [
        [`content/${nobody}`, 'No such title'],
        [`services/${nobody}`, 'No such AI service'],
      ]) {
        await page.evaluate((hash) => {
          location.hash = hash;
        }, `#/${path}`);
        await heading.getByText(title ?? '').waitFor();
        await page.getByText('No verified receipt of your domains').waitFor();
        expect(await page.locator('.failed, .plot').count()).toBe(0);
      }
      await page.getByRole('link', { name: 'Overview' }).click();
      await page.locator('.columns .live').waitFor();
    }));

  it('say where filters don’t apply, and what there is to compare with', () =>
    visit(base, {}, async ({ page }) => {
      await signIn(page, key, '#/?trust=unproven');
      await settled(page);
      await page.locator('.live').getByText('All uses, of every purpose, model, operator and trust').waitFor();
      await page.locator('.refusals').getByText('those filters don’t apply here').waitFor();
      await page
        .locator('.against')
        .getByText(/^Changes are against \d+ \w+ \d+, \d\d:\d\d – /)
        .waitFor();
      await accessible(page, 'unproven only');
      await page.getByRole('button', { name: 'Remove filter' }).click();
      await page.getByRole('radio', { name: 'Custom' }).check();
      await page.getByLabel('From').fill('2001-01-01');
      await page.getByLabel('To, included').fill('2001-01-31');
      await page.getByRole('button', { name: 'Show' }).click();
      await page.locator('.against').getByText('No uses in this range.').waitFor();
      await settled(page);
      expect(await page.locator('.change').count()).toBe(0);
      expect(await page.locator('.note:not(.help)').count()).toBe(0);
    }));

  it('fail one panel at a time, in words, and can be asked again', () =>
    visit(base, {}, async ({ page, allow }) => {
      allow(503);
      let failing = true;
      await page.route(`**${API}/clients?**`, (route) =>
        failing
          ? route.fulfill({
              status: 503,
              headers: { 'retry-after': '30', 'content-type': 'application/problem+json' },
              body: '{"code":"warehouse_unavailable","detail":"too slow"}',
            })
          : route.continue(),
      );
      await signIn(page, key);
      const panel = page.locator('.panel.services');
      await panel.getByText('Too slow. Trying again in 30 s.').waitFor();
      await page.locator('.panel.content tbody tr').first().waitFor();
      await accessible(page, 'a panel failed');
      failing = false;
      await panel.getByRole('button', { name: 'Try again' }).click();
      await panel.locator('tbody tr').first().waitFor();
      expect(await panel.locator('.failed').count()).toBe(0);
      failing = true;
      await panel.getByRole('button', { name: 'Download CSV' }).click();
      await panel.getByText('Too slow. Try again in 30 s.').waitFor();
    }));

  it('wait together, under one warning, while the account has no requests left', () =>
    visit(base, {}, async ({ page, allow }) => {
      allow(429);
      await signIn(page, key);
      await settled(page);
      const before = await total(page);
      let isUsedUp = true;
      await page.route(
        (url) => url.pathname.startsWith(API) && !url.pathname.endsWith('/live'),
        (route) =>
          isUsedUp
            ? route.fulfill({
                status: 429,
                headers: { 'retry-after': '1', 'content-type': 'application/problem+json' },
                body: '{"code":"rate_limited","detail":"60 are allowed"}',
              })
            : route.continue(),
      );
      await page.getByRole('button', { name: 'Refresh' }).click();
      await page.getByRole('status').getByText('Numbers that are grey or missing follow by themselves.').waitFor();
      await expect.poll(() => page.locator('.body.stale').count()).toBe(6);
      expect(await page.locator('.failed').count()).toBe(0);
      expect(await total(page)).toBe(before);
      await accessible(page, 'no requests left');
      // The numbers of another range are no stand-in.
      await page.getByRole('radio', { name: '30 days' }).check();
      await expect.poll(() => page.locator('.skeleton').count()).toBe(6);
      expect(await page.locator('.failed, .empty, .figure').count()).toBe(0);
      isUsedUp = false;
      await settled(page);
      await expect.poll(() => page.locator('.warning').count()).toBe(0);
      expect(await page.locator('.body.stale').count()).toBe(0);
    }));

  it('are none, and say why, for an account without a verified domain', () =>
    visit(base, {}, async ({ page, allow }) => {
      allow(403);
      const body = '{"code":"no_verified_domain","detail":"your account has no verified domain"}';
      await signIn(page, key);
      await settled(page);
      await page.route(
        (url) => url.pathname.startsWith(API),
        (route) => route.fulfill({ status: 403, headers: { 'content-type': 'application/problem+json' }, body }),
      );
      await page.reload();
      await page.getByRole('heading', { name: 'No verified domain' }).waitFor();
      await page.getByText('Your account has no verified domain.').waitFor();
      expect(await page.locator('.failed').count()).toBe(0);
      await accessible(page, 'no verified domain');
    }));

  it('are compared with a year before, by choice', () =>
    visit(base, {}, async ({ page }) => {
      await signIn(page, key);
      await settled(page);
      const answer = await asked(page, '/dashboard', () =>
        page.getByRole('combobox', { name: 'Compare with' }).selectOption('A year before'),
      );
      expect(answer.url.searchParams.get('compare')).toBe('year');
      expect(page.url()).toContain('compare=year');
      const year = new Date(answer.body.previous.from).getUTCFullYear();
      await page
        .locator('.against')
        .getByText(new RegExp(`No uses before, in .* ${year}`))
        .waitFor();
    }));
});

describe('everybody', () => {
  it('may have it dark', () =>
    visit(base, {}, async ({ page }) => {
      await signIn(page, key);
      await settled(page);
      await accessible(page, 'light');
      const paper = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
      const light = await paper();
      await page.getByRole('button', { name: 'Dark' }).click();
      expect(await paper()).not.toBe(light);
      await accessible(page, 'dark');
      await page.reload();
      await settled(page);
      expect(await page.getByRole('button', { name: 'Dark' }).getAttribute('aria-pressed')).toBe('true');
      await page.getByRole('button', { name: 'Dark' }).click();
      expect(await paper()).toBe(light);
    }));

  it('may have it on a phone', () =>
    visit(base, { viewport: { width: 390, height: 844 }, hasTouch: true, colorScheme: 'dark' }, async ({ page }) => {
      await signIn(page, key);
      await settled(page);
      const wide = () =>
        page.evaluate(() => ({
          page: document.documentElement.scrollWidth,
          screen: document.documentElement.clientWidth,
        }));
      expect(await wide()).toEqual({ page: 390, screen: 390 });
      await accessible(page, 'phone');
      await page.getByRole('radio', { name: '30 d' }).check();
      await settled(page);
      expect(page.url()).toContain('range=30d');
      await page.getByRole('link', { name: HOSTILE.title }).first().click();
      await settled(page);
      expect(await wide()).toEqual({ page: 390, screen: 390 });
    }));

  it('may have numbers and dates as their language writes them', () =>
    visit(base, { locale: 'de-DE' }, async ({ page }) => {
      await signIn(page, key, '#/content');
      await page.getByRole('status').getByText('titles').waitFor();
      expect(await page.locator('td.wide').nth(1).innerText()).toMatch(/^\d\d\.\d\d\.20\d\d, \d\d:\d\d$/);
      await page.getByRole('link', { name: 'Overview' }).click();
      await settled(page);
      expect(await total(page)).toMatch(/^\d\.\d{3}$/);
      expect(await page.locator('.proven-part').innerText()).toMatch(/ proven \(\d+\s%\)/);
      await accessible(page, 'German numbers');
    }));

  it('may have numbers of ten digits', async () => {
    const times = 2_434_211;
    const counts = /"((?:total|unique)\w+|\w*[cC]ount|training|inference|research|proven|unproven|value)":(\d+)/g;
    const greater = (json: string) => json.replace(counts, (_, name, text) => `"${name}":${Number(text) * times}`);
    for (const width of [1440, 1000, 390]) {
      await visit(base, { viewport: { width, height: 900 } }, async ({ page }) => {
        const isNumbers = (url: URL) => url.pathname.startsWith(API) && !url.pathname.endsWith('/live');
        await page.route(isNumbers, async (route) => {
          const response = await route.fetch();
          await route.fulfill({ response, body: greater(await response.text()) });
        });
        await signIn(page, key);
        await settled(page);
        expect((await total(page)).length).toBe('1,000,000,000'.length);
        const tooWide = () =>
          page.evaluate(() => {
            const right = (element: Element) => element.getBoundingClientRect().right;
            const found = document.querySelectorAll('.figure .value, .number, .proven-part, .reading > span, .today');
            const isCut = (one: Element) =>
              one.scrollWidth > one.clientWidth + 1 || right(one) > right(one.parentElement ?? one) + 1;
            const cut = [...found].filter((one) => getComputedStyle(one).display !== 'inline' && isCut(one));
            return [document.documentElement.scrollWidth, ...cut.map((one) => `${one.className} ${one.textContent}`)];
          });
        expect(await tooWide()).toEqual([width]);
        await page.getByRole('button', { name: 'Table' }).click();
        expect(await tooWide()).toEqual([width]);
        await page.locator('.panel.content tbody a').first().click();
        await settled(page);
        expect(await tooWide()).toEqual([width]);
        await accessible(page, `ten digits at ${width}`);
      });
    }
  });

  it('may use the keyboard alone', () =>
    visit(base, {}, async ({ page }) => {
      await page.goto('/dashboard');
      // The field has the focus from the start.
      await expect.poll(() => page.evaluate(() => document.activeElement?.id)).toBe('key');
      await page.keyboard.type(key);
      await page.keyboard.press('Enter');
      await page.locator('.figures').waitFor();
      await settled(page);
      const focused = () =>
        page.evaluate(() => document.activeElement?.getAttribute('role') ?? document.activeElement?.textContent ?? '');
      const tabTo = async (wanted: string, key = 'Tab') => {
        for (let n = 0; n < 40; n++) {
          if ((await focused()) === wanted) return;
          await page.keyboard.press(key);
        }
        throw new Error(`${wanted} isn't reached by Tab`);
      };
      // The tape is one stop, and arrow keys go through it.
      const line = page.locator('.live li a');
      await line.first().waitFor();
      expect(await page.locator('.live li a:not([tabindex="-1"])').count()).toBe(1);
      await line.first().focus();
      await page.keyboard.press('ArrowDown');
      const isFocused = (at: number) => line.nth(at).evaluate((link) => link === document.activeElement);
      expect(await isFocused(1)).toBe(true);
      await page.keyboard.press('ArrowUp');
      expect(await isFocused(0)).toBe(true);
      // Whole rows, however high the tape is.
      const [shown, row] = await page
        .locator('.lines ol')
        .evaluate((list) => [list.clientHeight, list.children[0]?.clientHeight]);
      expect(row).toBe(53);
      expect((shown ?? 1) % 54).toBe(0);
      await page.getByRole('radio', { name: '7 days' }).focus();
      await tabTo('slider');
      const slider = page.getByRole('slider');
      await page.keyboard.press('End');
      const last = await slider.getAttribute('aria-valuemax');
      expect(await slider.getAttribute('aria-valuenow')).toBe(last);
      await page.keyboard.press('ArrowLeft');
      expect(await slider.getAttribute('aria-valuenow')).toBe(String(Number(last) - 1));
      expect(await slider.getAttribute('aria-valuetext')).toMatch(
        new RegExp(`: uses \\d+, ${PURPOSES.map((purpose) => `${purpose} \\d+`).join(', ')}, proven \\d+$`),
      );
      for (let n = 0; n < 5; n++) await page.keyboard.press('Shift+ArrowLeft');
      const zoomed = await asked(page, '/timeseries', () => page.keyboard.press('Enter'));
      expect(Date.parse(zoomed.body.to) - Date.parse(zoomed.body.from)).toBe(6 * 3_600_000);
      await page.getByRole('button', { name: 'Zoom out' }).waitFor();
      await settled(page);
      await tabTo('Table', 'Shift+Tab');
      await page.keyboard.press('Enter');
      await page.getByRole('columnheader', { name: 'Training' }).waitFor();
      await accessible(page, 'table');
      expect(page.url()).toContain('range=');
    }));

  it('may print the numbers, and nothing to press', () =>
    visit(base, { colorScheme: 'dark' }, async ({ page }) => {
      await signIn(page, key, '#/?trust=unproven');
      await settled(page);
      await page.emulateMedia({ media: 'print' });
      expect(await page.evaluate(() => getComputedStyle(document.body).color)).toBe('rgb(0, 0, 0)');
      expect(
        await page.locator('.live, .tools, .actions, .lists, .pick:not(.zone)').locator('visible=true').count(),
      ).toBe(0);
      expect(await page.locator('.ranges .choice').locator('visible=true').allInnerTexts()).toEqual(['7 days']);
      for (const shown of ['.watermark', '.filters', '.proven-part', '.panel.services .trust', '.panel.content tbody'])
        expect(await page.locator(shown).first().isVisible(), shown).toBe(true);
    }));

  it('may zoom by dragging', () =>
    visit(base, {}, async ({ page }) => {
      await signIn(page, key);
      await settled(page);
      const box = await page.locator('.u-over').boundingBox();
      if (!box) throw new Error('the chart is there');
      await page.mouse.move(box.x + box.width * 0.5, box.y + 50);
      await page.mouse.down();
      await page.mouse.move(box.x + box.width * 0.6, box.y + 60, { steps: 5 });
      const zoomed = await asked(page, '/timeseries', () => page.mouse.up());
      const hours = (Date.parse(zoomed.body.to) - Date.parse(zoomed.body.from)) / 3_600_000;
      expect(hours).toBeGreaterThan(10);
      expect(hours).toBeLessThan(24);
      await page.getByRole('button', { name: 'Zoom out' }).click();
      await expect.poll(() => page.url()).not.toContain('range=');
    }));
});

beforeAll(async () => {
  // The first question opens the warehouse's files; no test is to pay for that.
  await service.ask(`${API}/dashboard`, key);
});
