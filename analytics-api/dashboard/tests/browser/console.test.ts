// The console, by clicks, against real services and a DNS server of its own.

import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Dns, dns } from './dns';
import { clients, uuid } from './sample';
import { PUBLISHER, type Service, start } from './service';
import { accessible, visit } from './visit';

const USED = {
  entryId: uuid('used'),
  url: `https://${PUBLISHER}/used`,
  purpose: 'training' as const,
};

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
  const key = service.key();
  service.setTier('enterprise');
  const [proven, unproven] = clients();
  if (!proven || !unproven) throw new Error('there are clients');
  await service.operator('atlas.example', [proven.signer]);
  const use = { ...USED, timestampMs: Date.now() - 1000 };
  await service.send(proven.signer, [use]);
  await service.send(unproven.signer, [use, use]);
  await service.sendForged(unproven.signer, use);
  await service.counted(3, key);
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
      await page.locator('.pairs').getByText('acc_').waitFor();
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
      // A session that ended elsewhere is known after two seconds at the latest.
      await expect
        .poll(async () => {
          const ended = page.getByText('Your session has ended');
          for (const name of ['Domains', 'Account']) {
            if ((await ended.count()) > 0) break;
            // The link may go meanwhile; on a busy machine a click takes a while.
            await page
              .getByRole('link', { name })
              .click({ timeout: 5_000 })
              .catch(() => {});
          }
          return ended.count();
        })
        .toBe(1);
      await page.goto(service.loginLink('owner'));
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.locator('.console h1').waitFor();
      expect(page.url()).toMatch(/dashboard#.settings(.domains)?$/);
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
      const focused = () =>
        page.evaluate(() => document.activeElement?.ariaLabel ?? document.activeElement?.textContent);
      await expect.poll(focused).toBe('Leave it as it is');
      await page.keyboard.press('Escape');
      await expect.poll(focused).toBe('Give back: daily.example');
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

describe('API keys', () => {
  const row = (page: Page, name: string) => page.getByRole('row', { name: new RegExp(name) });

  it('shows a key once, and what it may do, and replaces and revokes it', () =>
    entered('owner', '#/settings/keys', async (page) => {
      await page.getByLabel('Name', { exact: true }).fill('weekly report');
      await page.getByLabel('Works for').selectOption('90 days');
      await page.getByRole('button', { name: 'Make the key' }).click();
      const shown = page.getByLabel('API key “weekly report”', { exact: true });
      const key = await shown.inputValue();
      expect(key).toMatch(/^rcpt_/);
      await accessible(page, 'a new key');
      expect((await service.ask('/api/v1/analytics/purposes', key)).status).toBe(200);
      await page.getByRole('button', { name: 'I have stored it' }).click();
      await row(page, 'weekly report').getByText('read numbers and entries').waitFor();
      expect(await page.content()).not.toContain(key);
      await page.reload();
      await quiet(page);
      expect(await page.content()).not.toContain(key);
      expect(await row(page, 'weekly report').innerText()).toContain('made by You');
      expect(await row(page, 'weekly report').innerText()).not.toContain('never');

      await row(page, 'weekly report').getByRole('button', { name: 'Replace: weekly report' }).click();
      await page.getByLabel('This one ends').selectOption('at once');
      await accessible(page, 'a replacement');
      await page.getByRole('button', { name: 'Make the new key' }).click();
      const next = await shown.inputValue();
      expect(next).not.toBe(key);
      await row(page, 'weekly report').filter({ hasText: 'Revoked' }).waitFor();

      await row(page, 'weekly report').getByRole('button', { name: 'Revoke: weekly report' }).click();
      await page.getByRole('button', { name: 'Revoke it' }).click();
      await expect.poll(() => row(page, 'weekly report').filter({ hasText: 'Revoked' }).count()).toBe(2);
      await expect.poll(() => service.ask('/api/v1/analytics/purposes', next).catch(() => 'refused')).toBe('refused');
    }));

  it('asks for a fresh sign-in, and goes on where the person was', () =>
    entered('owner', '#/settings/keys', async (page, allow) => {
      allow(403);
      await page.getByLabel('Name', { exact: true }).fill('late');
      store('UPDATE sessions SET signed_in_at_ms = signed_in_at_ms - 660000');
      await page.getByRole('button', { name: 'Make the key' }).click();
      await page.getByRole('alert').getByText('Please sign in again.').waitFor();
      await accessible(page, 'a stale sign-in');
      // The person signs in by a link in another tab, and continues in this one.
      const tab = await page.context().newPage();
      await tab.goto(service.loginLink('owner'));
      await tab.getByRole('button', { name: 'Sign in' }).click();
      await tab.locator('.top').waitFor();
      await tab.close();
      await page.getByRole('button', { name: 'I have signed in, continue' }).click();
      await page.getByText('“late” is made.').waitFor();

      store('UPDATE sessions SET signed_in_at_ms = signed_in_at_ms - 660000');
      await page.reload();
      await page.getByText('Please sign in again.').waitFor();
      expect(await page.getByRole('button', { name: 'Make the key' }).count()).toBe(0);
      expect(await page.getByRole('link', { name: 'Sign in again' }).getAttribute('href')).toBe(
        '/api/v1/auth/login?fresh=true',
      );
      // The way by a link in the same tab leads back, too.
      await page.goto(service.loginLink('owner'));
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByRole('button', { name: 'Make the key' }).waitFor();
      expect(page.url()).toBe(`${base}/dashboard#/settings/keys`);
    }));

  it('says what is wrong with a name, and explains to editors whose part keys are', () =>
    entered('editor', '#/settings/keys', async (page) => {
      await page.getByText('Your role is editor. Owners make, replace and revoke API keys').waitFor();
      expect(await page.locator('main button').count()).toBe(0);
      await accessible(page, 'keys of an editor');
    }));
});

describe('members', () => {
  const open = (page: Page) => page.locator('[aria-labelledby="invitations-title"], #invitations').locator('li');

  it('are invited by a link that works once, get another role, and are removed', () =>
    entered('owner', '#/settings/members', async (page) => {
      await accessible(page, 'members');
      await page.locator('form select').selectOption('reader');
      await page.getByRole('button', { name: 'Invite' }).click();
      await page.getByText('The link is made.').waitFor();
      const link = new URL(await page.getByRole('textbox', { name: 'Link of the invitation' }).inputValue());
      await expect.poll(() => open(page).count()).toBe(1);
      await accessible(page, 'an invitation');

      await visit(base, {}, async ({ page: other, allow }) => {
        allow(403, 404, 410);
        await other.goto(link.pathname);
        await other.getByRole('button', { name: 'Join' }).click();
        await other.locator('.top').waitFor();
        await other.goto(link.pathname);
        expect(await other.getByRole('button', { name: 'Join' }).count()).toBe(0);
      });

      await page.reload();
      await page.getByText('None.').waitFor();
      const reader = page.getByRole('row').filter({ hasText: 'sees the numbers' });
      await reader.getByRole('button', { name: /^Change role/ }).click();
      await reader.locator('select').selectOption('editor');
      await reader.getByRole('button', { name: 'Give this role' }).click();
      await expect.poll(() => reader.count()).toBe(0);
      const editor = page.getByRole('row').filter({ hasText: 'also changes domains' });
      const before = await editor.count();
      await editor
        .last()
        .getByRole('button', { name: /^Remove/ })
        .click();
      await page.getByRole('button', { name: 'Remove them' }).click();
      await expect.poll(() => editor.count()).toBe(before - 1);
    }));

  it('are seen by readers, and an invitation is withdrawn', async () => {
    await entered('owner', '#/settings/members', async (page) => {
      await page.getByRole('button', { name: 'Invite' }).click();
      await page.getByRole('button', { name: 'Withdraw: by a link' }).click();
      await page.getByRole('button', { name: 'Withdraw it' }).click();
      await page.getByText('None.').waitFor();
    });
    await entered('reader', '#/settings/members', async (page) => {
      await page.getByText('Your role is reader. Owners invite people').waitFor();
      expect(await page.locator('main button').count()).toBe(0);
    });
  });
});

describe('mails', () => {
  it('are chosen by each person, a reader too, and stay chosen', () =>
    entered('reader', '#/settings/mails', async (page) => {
      await accessible(page, 'mails');
      await page.getByText('You have no e-mail address here').waitFor();
      await page.getByText('This service can’t send mails yet').waitFor();
      await page.getByLabel('Every week').check();
      await page.getByLabel('No uses').check();
      expect(await page.getByLabel('For, in hours').inputValue()).toBe('24');
      await page.getByLabel('For, in hours').fill('48');
      await page.getByRole('button', { name: 'Save' }).click();
      await page.getByText('Saved.').waitFor();
      await accessible(page, 'mails with a limit');

      await page.reload();
      await expect.poll(() => page.getByLabel('Every week').isChecked()).toBe(true);
      expect(await page.getByLabel('Every month').isChecked()).toBe(false);
      expect(await page.getByLabel('For, in hours').inputValue()).toBe('48');
      await page.getByLabel('No uses').uncheck();
      await page.getByRole('button', { name: 'Save' }).click();
      await page.getByText('Saved.').waitFor();
      expect(await page.getByLabel('For, in hours').count()).toBe(0);

      // The browser refuses it before the service would.
      await page.getByLabel('Many uses are unproven').check();
      await page.getByLabel('More than, in percent').fill('100');
      await page.getByRole('button', { name: 'Save' }).click();
      expect(await page.getByText('Saved.').count()).toBe(0);
    }));
});

describe('the catalogue', () => {
  const upload = (page: Page, name: string, text: string) =>
    page.getByLabel('File').setInputFiles({ name, mimeType: 'text/plain', buffer: Buffer.from(text) });

  it('shows what a file has and what is refused before it sends anything, then lists it', () =>
    entered('editor', '#/settings/catalogue', async (page) => {
      const sent: string[] = [];
      page.on('request', (request) => request.method() === 'POST' && sent.push(request.url()));
      const rows = Array.from(
        { length: 40 },
        (_, at) => `https://news.example/story-${at},"Story ${at}, the end",Ada;Bo`,
      );
      await upload(
        page,
        'x.csv',
        ['url,title,authors', ...rows, 'https://other.example/,Theirs,', ',No address,'].join('\n'),
      );
      await page.getByText('40 entries can be listed, 2 lines can’t.').waitFor();
      await page.getByText('other.example isn’t a domain of yours').waitFor();
      await accessible(page, 'a preview');
      expect(sent).toEqual([]);
      await page.getByRole('button', { name: 'List 40 entries' }).click();
      await page.getByText('40 entries listed.').waitFor();
      expect(sent.length).toBe(1);
      await page
        .getByRole('link', { name: /^Story \d+, the end/ })
        .first()
        .waitFor();
      expect(await page.locator('.entries tbody tr').count()).toBe(25);
      await page.getByRole('button', { name: 'Next page' }).click();
      await expect.poll(() => page.locator('.entries tbody tr').count()).toBe(15);
      await page.getByPlaceholder('Title or address').fill('story-17');
      await page.keyboard.press('Enter');
      await expect.poll(() => page.locator('.entries tbody tr').count()).toBe(1);
      await page.getByText('Ada, Bo').waitFor();
      await accessible(page, 'a search');
    }));

  it('takes sitemaps, lines of JSON, and pasted addresses', () =>
    entered('editor', '#/settings/catalogue', async (page) => {
      const loc = (name: string, title = '') => `<url><loc> https://www.news.example/${name} </loc>${title}</url>`;
      const news = '<news:news><news:title>Named &amp; known</news:title></news:news>';
      const urls = `${loc('map-1')}${loc('map-2', news)}<url/>`;
      await upload(
        page,
        'sitemap.xml',
        `<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">${urls}</urlset>`,
      );
      await page.getByText('2 entries can be listed, 1 line can’t.').waitFor();
      await page.getByRole('button', { name: 'List 2 entries' }).click();
      await page.getByText('2 entries listed.').waitFor();
      // Without a title, the address is shown.
      await page.getByRole('link', { name: 'https://www.news.example/map-1' }).waitFor();
      await page.getByRole('link', { name: 'Named & known' }).waitFor();

      await upload(
        page,
        'index.xml',
        '<sitemapindex><sitemap><loc>https://news.example/a.xml</loc></sitemap></sitemapindex>',
      );
      await page.getByRole('alert').getByText('https://news.example/a.xml').waitFor();
      await upload(page, 'bad.xml', '<urlset><url>');
      await page.getByRole('alert').getByText('isn’t').waitFor();
      await accessible(page, 'a file that can’t be read');

      await upload(page, 'x.ndjson', '{"url":"https://news.example/line","title":"A line"}\n{"url":1}\n');
      await page.getByText('1 entry can be listed, 1 line can’t.').waitFor();
      await page.getByRole('button', { name: 'Don’t' }).click();

      await page.getByLabel('Or paste addresses').fill('https://news.example/pasted\nhttps://www.news.example/map-1\n');
      await page.getByRole('button', { name: 'Look at them' }).click();
      await page.getByRole('button', { name: 'List 2 entries' }).click();
      await page.getByText('1 entry listed. 1 were there already.').waitFor();
    }));

  it('lets editors put an entry right, and says what is wrong with it', () =>
    entered('editor', '#/settings/catalogue', async (page, allow) => {
      allow(400, 403);
      const edit = page.getByRole('button', { name: 'Edit: https://news.example/pasted' });
      await edit.click();
      await page.getByLabel('Title', { exact: true }).fill('Never saved');
      await page.keyboard.press('Escape');
      await edit.click();
      expect(await page.getByLabel('Title', { exact: true }).inputValue()).toBe('https://news.example/pasted');
      await accessible(page, 'an entry to edit');
      await page.getByLabel('Address', { exact: true }).fill('https://elsewhere.example/pasted');
      await page.getByRole('button', { name: 'Save it' }).click();
      await page.getByRole('alert').getByText('elsewhere.example').waitFor();
      await page.getByLabel('Address', { exact: true }).fill('https://news.example/put-right');
      await page.getByLabel('Authors, one a line').fill(' Ada Byron\n\nB. Bolt, of the paper ');
      await page.getByLabel('Title', { exact: true }).fill('Put right');
      await page.keyboard.press('Enter');
      const row = page.getByRole('row', { name: 'Put right' });
      await row.getByText('news.example/put-right').waitFor();
      await row.getByText('Ada Byron, B. Bolt, of the paper').waitFor();
      expect(await page.getByRole('button', { name: 'Remove: Put right' }).count()).toBe(0);
      await page.getByRole('button', { name: 'Edit: Put right' }).click();
      expect(await page.getByLabel('Authors, one a line').inputValue()).toBe('Ada Byron\nB. Bolt, of the paper');
      await page.getByLabel('Authors, one a line').fill('');
      await page.getByRole('button', { name: 'Save it' }).click();
      await expect.poll(() => row.getByText('Ada Byron').count()).toBe(0);
    }));

  it('lets owners remove an entry, and readers search', async () => {
    await entered('owner', '#/settings/catalogue', async (page) => {
      await page.getByRole('button', { name: 'Remove: Put right' }).click();
      await page.getByRole('button', { name: 'Remove it' }).click();
      await expect.poll(() => page.getByRole('link', { name: 'Put right' }).count()).toBe(0);
    });
    await entered('reader', '#/settings/catalogue', async (page) => {
      await page.getByText('Editors and owners list content').waitFor();
      expect(await page.getByLabel('File').count()).toBe(0);
      expect(await page.getByRole('button', { name: /^Edit/ }).count()).toBe(0);
      await page.getByPlaceholder('Title or address').fill('nothing has this');
      await page.getByRole('button', { name: 'Search' }).click();
      await page.getByText('Nothing has “nothing has this” in it.').waitFor();
      await accessible(page, 'an empty search');
    });
  });
});

describe('receipts', () => {
  it('show their evidence, and a command that OpenSSL confirms', () =>
    entered('reader', '#/settings/receipts', async (page) => {
      expect(await page.locator('.receipts tbody tr').count()).toBe(3);
      await accessible(page, 'receipts');
      await page
        .getByRole('row', { name: /AtlasBot/ })
        .getByRole('link', { name: /^Evidence/ })
        .click();
      await page.getByText('Check it yourself').waitFor();
      await accessible(page, 'evidence');
      const command = await page.getByLabel('Command', { exact: true }).inputValue();
      expect(execFileSync('bash', ['-c', command], { encoding: 'utf8' })).toContain('Signature Verified Successfully');
      expect(await page.getByLabel('Signed text', { exact: true }).inputValue()).toContain(USED.url);
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('button', { name: 'Download' }).click(),
      ]);
      expect(download.suggestedFilename()).toMatch(/^evidence-[0-9a-f-]{36}\.json$/);
    }));

  it('are found by their IDs, or said not to be there', () =>
    entered('reader', '#/settings/receipts', async (page, allow) => {
      allow(404);
      await page.getByLabel('Receipt ID').fill(uuid('none'));
      await page.keyboard.press('Enter');
      await page.getByRole('alert').getByText('Nothing here').waitFor();
      await accessible(page, 'no evidence');
    }));

  it('that were rejected are told by reason and service, in words', () =>
    entered('reader', '#/settings/rejected', async (page) => {
      await page.getByText('The signature doesn’t fit').waitFor();
      await page.getByRole('row', { name: /HeronReader 1/ }).waitFor();
      await page.getByRole('button', { name: 'Bad signature' }).click();
      await page.locator('[aria-pressed=true]').getByText('Bad signature').waitFor();
      await accessible(page, 'rejected');
    }));
});

it('lists companies, and services that nobody has proven to be', () =>
  entered('reader', '#/settings/services', async (page) => {
    await page.getByRole('row', { name: /atlas\.example proven 1 1/ }).waitFor();
    await page.getByRole('row', { name: /Nobody has proven to be behind these unproven 1 2/ }).waitFor();
    await page.locator('.unproven').getByRole('link', { name: 'HeronReader' }).waitFor();
    expect(await page.locator('.unproven tbody tr').count()).toBe(1);
    await accessible(page, 'AI services');
  }));

it('counts as proven only uses of the companies that an account trusts', async () => {
  await entered('editor', '#/settings/services', async (page, allow) => {
    allow(400);
    const atlas = (trust: string) => page.getByRole('row', { name: new RegExp(`^atlas.example ${trust}.* 1 1 `) });
    await page.getByText('Every company that has proven its domain.').waitFor();
    const field = page.getByLabel('Domain of a company');
    await field.fill('no domain');
    await page.getByRole('button', { name: 'Trust this company' }).click();
    await page.locator('.trusted').getByRole('alert').waitFor();
    await accessible(page, 'a company that is none');
    await field.fill('other.example');
    await page.keyboard.press('Enter');
    await atlas('unproven').getByText('your account doesn’t trust it').waitFor();
    await field.fill('atlas.example');
    await page.keyboard.press('Enter');
    await atlas('proven').waitFor();
    await accessible(page, 'trusted companies');
  });
  await entered('reader', '#/settings/services', async (page) => {
    await page.getByText('Editors and owners choose the companies').waitFor();
    expect(await page.locator('.trusted tbody tr').allInnerTexts()).toEqual(['atlas.example', 'other.example']);
  });
  await entered('owner', '#/settings/services', async (page) => {
    for (const name of ['atlas.example', 'other.example']) {
      await page.getByRole('button', { name: `Remove: ${name}` }).click();
      await page.getByRole('button', { name: 'Remove it from the list' }).click();
      await expect.poll(() => page.getByRole('button', { name: `Remove: ${name}` }).count()).toBe(0);
    }
    await page.getByText('Every company that has proven its domain.').waitFor();
  });
});

describe('erasures', () => {
  it('are requested and cancelled by owners, and seen by all', async () => {
    await entered('owner', '#/settings/erasures', async (page) => {
      await page.getByText('None was requested.').waitFor();
      await page.getByLabel('The whole catalogue').check();
      await page.getByRole('button', { name: 'Request: this erasure' }).click();
      await accessible(page, 'an erasure');
      await page.getByRole('button', { name: 'Request the erasure' }).click();
      const row = page.getByRole('row', { name: /All entries/ });
      await row.getByText('Scheduled').waitFor();
      expect(await row.innerText()).toMatch(/begins .* in 2[34] h/);
      await row.getByRole('button', { name: 'Cancel: all entries' }).click();
      await row.getByRole('button', { name: 'Cancel the erasure' }).click();
      await row.getByText('Cancelled').waitFor();
      await page.getByLabel('Named as').selectOption('Session');
      await page.getByLabel('Identifier').fill('session-of-nobody');
      await page.getByRole('button', { name: 'Request: the erasure of this person' }).click();
      await accessible(page, 'an erasure of a person');
      await page.getByRole('button', { name: 'Request the erasure' }).click();
      const person = page.getByRole('row', { name: /A session in receipts/ });
      await person.getByText('Scheduled').waitFor();
      expect(await page.locator('main').innerText()).not.toContain('session-of-nobody');
      await person.getByRole('button', { name: 'Cancel: a session in receipts' }).click();
      await person.getByRole('button', { name: 'Cancel the erasure' }).click();
      await person.getByText('Cancelled').waitFor();
    });
    await entered('editor', '#/settings/erasures', async (page) => {
      await page.getByText('Owners request and cancel erasures').waitFor();
      await page
        .getByRole('row', { name: /All entries/ })
        .getByText('Cancelled')
        .waitFor();
      expect(await page.locator('main button').count()).toBe(0);
      await accessible(page, 'erasures of an editor');
    });
  });
});

it('tells who did what, by name', () =>
  entered('reader', '#/settings/activity', async (page) => {
    await page.getByText('You signed in').first().waitFor();
    await page.getByText('Whoever runs this service made a login link').first().waitFor();
    await accessible(page, 'activity');
  }));

it('hands over a month as one file', () =>
  entered('reader', '#/settings/months', async (page) => {
    const links = page.getByRole('link', { name: /^Download: / });
    expect(await links.count()).toBe(12);
    const arriving = page.waitForEvent('download');
    await links.first().click();
    const download = await arriving;
    expect(download.suggestedFilename()).toMatch(/^receipts-[0-9]{4}-[0-9]{2}\.zip$/);
    const unpack =
      "import json,sys,zipfile; z=zipfile.ZipFile(sys.argv[1]); print(json.dumps([json.loads(z.read('summary.json')), z.read('receipts.ndjson').decode().splitlines()]))";
    const unpacked = execFileSync('python3', ['-c', unpack, await download.path()], { encoding: 'utf8' });
    const [summary, receipts] = JSON.parse(unpacked) as [{ totalReceipts: number; uniqueClients: number }, string[]];
    expect([summary.totalReceipts, summary.uniqueClients, receipts.length]).toEqual([3, 2, 3]);
    await accessible(page, 'months');
  }));

/** A folder for a picture of each view, for those who want to look at them. */
const PICTURES = process.env.CONSOLE_PICTURES;

describe.each(['light', 'dark'] as const)('%s', (colorScheme) => {
  it.each([1440, 900, 390])('every view fits %i pixels, and is accessible', (width) =>
    entered(
      'owner',
      '#/settings',
      async (page) => {
        const links = page.locator('.sections a');
        const hashes = await links.evaluateAll((all) => all.map((link) => link.getAttribute('href') ?? ''));
        expect(hashes.length).toBe(13);
        const [receipt] = await page.evaluate(async () => {
          const answer = await (await fetch('/api/v1/analytics/receipts?limit=1')).json();
          return (answer as { receipts: { receiptId: string }[] }).receipts;
        });
        for (const hash of [...hashes, `#/settings/receipts/${receipt?.receiptId}`]) {
          await page.goto(`/dashboard${hash}`);
          await page.locator('.panel, .steps').first().waitFor();
          await quiet(page);
          await accessible(page, `${hash} at ${width}, ${colorScheme}`);
          const size = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
          expect(size[0], `${hash} at ${width}`).toBeLessThanOrEqual(size[1] ?? 0);
          const name = hash.replaceAll(/[^a-z]+/g, '-').slice(1, 24);
          if (PICTURES)
            await page.screenshot({ path: `${PICTURES}/${name}-${width}-${colorScheme}.png`, fullPage: true });
        }
      },
      { viewport: { width, height: 900 }, colorScheme },
    ),
  );
});
