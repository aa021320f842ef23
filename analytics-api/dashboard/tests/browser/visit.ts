// A browser as a visitor has it, that fails a test for whatever must never happen: a script that
// isn't the page's, a refused load, a dialog, a request to somewhere else.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { expect } from 'vitest';

const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export interface Visit {
  page: Page;
  /** Answers of the API that may fail in this test, by status; 0 where none comes. */
  allow: (...statuses: number[]) => void;
  /** Another origin that the browser may be led to in this test. */
  allowOrigin: (origin: string) => void;
}

/** Opens a browser on an empty profile, and closes it, however `work` ends. */
export async function visit(
  base: string,
  options: BrowserContextOptions,
  work: (visit: Visit) => Promise<void>,
): Promise<void> {
  const profile = mkdtempSync(join(tmpdir(), 'receipts-chromium-'));
  let context: BrowserContext | undefined;
  try {
    context = await chromium.launchPersistentContext(profile, {
      executablePath: CHROMIUM,
      args: FLAGS,
      chromiumSandbox: false,
      baseURL: base,
      viewport: { width: 1280, height: 900 },
      timezoneId: 'Europe/Berlin',
      locale: 'en-GB',
      reducedMotion: 'reduce',
      ...options,
    });
    const page = context.pages()[0] ?? (await context.newPage());
    // Patience, not a limit: other tests use the processor too.
    page.setDefaultTimeout(60_000);
    const faults: string[] = [];
    const allowed = new Set<number>();
    const origins = new Set([base]);
    await context.exposeFunction('violated', (text: string) => faults.push(`policy: ${text}`));
    await context.addInitScript(() => {
      document.addEventListener('securitypolicyviolation', (event) => {
        (globalThis as unknown as { violated: (text: string) => void }).violated(
          `${event.violatedDirective} ${event.blockedURI}`,
        );
      });
    });
    page.on('dialog', (dialog) => {
      faults.push(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on('pageerror', (error) => faults.push(`error: ${error.message}`));
    page.on('console', (message) => {
      const answered = /status of (\d+)/.exec(message.text());
      const status = answered ? Number(answered[1]) : message.text().includes('net::ERR_') ? 0 : null;
      if (message.type() === 'error' && !(status !== null && allowed.has(status)))
        faults.push(`console: ${message.text()}`);
    });
    page.on('request', (request) => {
      const url = new URL(request.url());
      if (url.protocol !== 'blob:' && !origins.has(url.origin)) faults.push(`request to ${url.origin}`);
      // The key is in a header or nowhere.
      if (/rcpt_/.test(request.url())) faults.push('a key in an address');
    });
    await work({
      page,
      allow: (...statuses) => statuses.forEach((status) => void allowed.add(status)),
      allowOrigin: (origin) => void origins.add(origin),
    });
    expect(faults).toEqual([]);
  } finally {
    await context?.close();
    rmSync(profile, { recursive: true, force: true });
  }
}

export async function signIn(page: Page, key: string, hash = ''): Promise<void> {
  await page.goto(`/dashboard${hash}`);
  await page.getByLabel('API key').fill(key);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.locator('.top').waitFor();
}

/** Waits until no panel is on its way. */
export async function settled(page: Page): Promise<void> {
  await page.locator('.figures, .totals .failed').first().waitFor();
  await page.waitForFunction(() => document.querySelectorAll('[aria-busy="true"]').length === 0);
}

/** The file of a panel's CSV button, by its lines. */
export async function download(page: Page, title: string): Promise<{ name: string; header: string; lines: string[] }> {
  const button = page.getByRole('button', { name: `Download CSV: ${title}` });
  const [file] = await Promise.all([page.waitForEvent('download', { timeout: 120_000 }), button.click()]);
  const [header = '', ...lines] = readFileSync(await file.path(), 'utf8')
    .trimEnd()
    .split('\r\n');
  return { name: file.suggestedFilename(), header, lines };
}

/** axe finds nothing serious or critical. */
export async function accessible(page: Page, state: string): Promise<void> {
  await page.evaluate(AXE);
  const found = await page.evaluate(async () => {
    const axe = (globalThis as unknown as { axe: typeof import('axe-core') }).axe;
    const { violations } = await axe.run(document, { resultTypes: ['violations'] });
    return violations
      .filter(({ impact }) => impact === 'serious' || impact === 'critical')
      .map(
        ({ id, nodes }) =>
          `${id}: ${nodes.map(({ html, failureSummary }) => `${html.slice(0, 160)} ${failureSummary}`).join(' | ')}`,
      );
  });
  expect(found, state).toEqual([]);
}
