import { afterEach, describe, expect, it, vi } from 'vitest';
import { locationHash, parseLocation } from './location';

const ID = '0d3f8a52-1111-4abc-8def-0123456789ab';

describe('locations', () => {
  it('survive the address', () => {
    for (const hash of [
      '#/',
      '#/?range=30d&tz=Asia/Tokyo&compare=year',
      '#/?range=2026-11-01..2026-11-05&interval=hour&purpose=training',
      '#/?range=2026-11-01T00:00:00.000Z..2026-11-01T02:00:00.000Z&metric=clients',
      `#/content/${ID}?range=1h&model=gpt+4%26x%3D1`,
      `#/services/${ID}?domain=news.example`,
      `#/services/${ID}/${'0f'.repeat(32)}?range=24h`,
      '#/operators?operator=lab.example',
      '#/content?sort=lastSeen&q=a+%26+b+&before=50&cursor=WzE3',
      `#/content/${ID}/services?sort=name`,
      `#/services/${ID}/content?q=x`,
      `#/services/${ID}/${'0f'.repeat(32)}/content`,
    ]) {
      expect(locationHash(parseLocation(hash))).toBe(hash);
    }
  });

  it('pass over what they don’t know', () => {
    const plain = locationHash(parseLocation(''));
    for (const hash of [
      '#/?range=forever&interval=second&tz=Mars/Olympus&purpose=fun&metric=cats',
      '#/?range=2026-11-05..2026-11-01',
      '#/?range=2026-02-30..2026-03-01',
      '#/?tz=%2B02:00',
      `#/?model=${'x'.repeat(2000)}`,
    ]) {
      expect(locationHash(parseLocation(hash)), hash).toBe(plain);
    }
    expect(locationHash(parseLocation('#/models?sort=lastSeen&before=-1&cursor='))).toBe('#/models');
    for (const hash of [
      '#/nowhere',
      '#/content/../../etc',
      '#/content/<script>',
      '#/services/',
      `#/content/${ID}/content`,
      `#/services/${ID}/services`,
      `#/content/${ID}/${'0f'.repeat(32)}`,
      `#/models/${ID}`,
    ]) {
      expect(locationHash(parseLocation(hash)), hash).toBe('#/unknown');
    }
  });
});

describe('lists', () => {
  afterEach(() => {
    vi.unstubAllGlobals();
    vi.resetModules();
  });

  it('begin at their first row when the selection changes', async () => {
    vi.stubGlobal('location', { hash: '#/content?q=ferry&before=50&cursor=WzE3' });
    vi.stubGlobal('addEventListener', () => {});
    vi.resetModules();
    const { linkTo, listView } = await import('./location');
    expect(linkTo({ trust: 'proven' })).toBe('#/content?trust=proven&q=ferry');
    expect(linkTo({ view: { ...listView('models'), page: { cursor: 'x', before: 9 } } })).toBe(
      '#/models?before=9&cursor=x',
    );
  });
});

describe('zooming out', () => {
  afterEach(() => {
    vi.unstubAllGlobals();
    vi.resetModules();
  });

  it('leads to what was on show before that zoom, also after Back', async () => {
    const browser = { hash: '#/?range=30d' };
    let changed = () => {};
    vi.stubGlobal('location', browser);
    vi.stubGlobal('addEventListener', (_: string, heard: () => void) => (changed = heard));
    vi.resetModules();
    const { pageLocation, zoomTo, zoomOut } = await import('./location');
    const at = (hash: string) => {
      browser.hash = hash;
      changed();
    };
    const now = () => {
      changed();
      return pageLocation.value.range;
    };
    const [day, hour] = [86_400_000, 3_600_000];
    zoomTo(0, day);
    expect(now()).toEqual({ fromMs: 0, toMs: day });
    zoomTo(0, hour);
    const inner = browser.hash;
    now();
    // Back twice, and into another zoom.
    at('#/?range=30d');
    zoomTo(day, 2 * day);
    now();
    zoomOut();
    expect(now()).toEqual({ preset: '30d' });
    at(inner);
    zoomOut();
    expect(now()).toEqual({ fromMs: 0, toMs: day });
    zoomOut();
    expect(now()).toEqual({ preset: '30d' });
    // A page that was opened on a range of somebody else's.
    at('#/?range=1970-01-03T00:00:00.000Z..1970-01-04T00:00:00.000Z');
    zoomOut();
    expect(now()).toEqual({ preset: '7d' });
  });
});
