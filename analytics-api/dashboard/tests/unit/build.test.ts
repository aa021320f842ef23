// What is committed as built: small, whole, and nothing in it that the page's policy would refuse.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, it } from 'vitest';

const DIST = join(import.meta.dirname, '../../dist');
const SCRIPT_BYTES_MAX = 70_000;

const assets = () => readdirSync(join(DIST, 'assets'));
const bytes = (name: string) => readFileSync(join(DIST, 'assets', name));

it('needs less than 70 kB of compressed script to paint', () => {
  const scripts = assets().filter((name) => name.endsWith('.js'));
  expect(scripts.length).toBeGreaterThan(0);
  const all = scripts.reduce((sum, name) => sum + gzipSync(bytes(name), { level: 9 }).length, 0);
  expect(all).toBeLessThan(SCRIPT_BYTES_MAX);
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
