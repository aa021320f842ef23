// What is committed as built: small, whole, and nothing in it that the page's policy would refuse.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, it } from 'vitest';

const DIST = join(import.meta.dirname, '../../dist');
const SCRIPT_BYTES_MAX = 70_000;
/** Of the console, which is loaded by those who go there. */
const CONSOLE_BYTES_MAX = 35_000;

const assets = () => readdirSync(join(DIST, 'assets'));
const bytes = (name: string) => readFileSync(join(DIST, 'assets', name));

const compressed = (scripts: string[]) =>
  scripts.reduce((sum, name) => sum + gzipSync(bytes(name), { level: 9 }).length, 0);

it('needs less than 70 kB of compressed script to paint, and 35 kB for the console', () => {
  const scripts = assets().filter((name) => name.endsWith('.js'));
  const isConsole = (name: string) => name.startsWith('Console-');
  const [page, rest] = [scripts.filter((name) => !isConsole(name)), scripts.filter(isConsole)];
  expect([page.length, rest.length]).toEqual([1, 1]);
  expect(compressed(page)).toBeLessThan(SCRIPT_BYTES_MAX);
  expect(compressed(rest)).toBeLessThan(CONSOLE_BYTES_MAX);
  const shown = readFileSync(join(DIST, 'index.html'), 'utf8');
  expect(shown).not.toContain('Console-');
});

it('names no other host and evaluates nothing', () => {
  for (const name of assets()) {
    const text = bytes(name).toString('utf8');
    const hosts = [...text.matchAll(/https?:\/\/([a-z0-9.-]+)/gi)].map((found) => found[1]);
    expect(
      hosts.filter((host) => host !== 'www.w3.org'),
      name,
    ).toEqual([]);
    if (name.endsWith('.js')) expect(text, name).not.toMatch(/\beval\(|new Function\(|document\.write/);
    if (name.endsWith('.css')) expect(text, name).not.toMatch(/@import|url\(/);
  }
});
