import { afterEach, describe, expect, it, vi } from 'vitest';
import { change, clock, compact, count, offsetName, share, span, words } from './format';

describe('numbers', () => {
  it('are grouped, and short on an axis', () => {
    expect(count(1_234_567)).toBe('1,234,567');
    expect([0, 999, 9_999, 12_000, 3_400_000].map(compact)).toEqual(['0', '999', '9,999', '12K', '3.4M']);
  });

  it('have shares', () => {
    const parts = [share(1, 3), share(1, 20), share(1, 5000), share(0, 9), share(0, 0), share(9, 9), share(999, 1000)];
    expect(parts).toEqual(['33%', '5.0%', '<0.1%', '0%', '–', '100%', '>99%']);
  });

  it('change in words', () => {
    expect([
      change(12, 10),
      change(10, 12),
      change(5, 5),
      change(5, 0),
      change(0, 0),
      change(500, 3),
      change(0, 7),
    ]).toEqual([
      { direction: 'more', text: '+20%' },
      { direction: 'less', text: '−17%' },
      { direction: 'same', text: 'no change' },
      { direction: 'more', text: 'new' },
      { direction: 'same', text: 'no change' },
      { direction: 'more', text: '×167' },
      { direction: 'less', text: '−100%' },
    ]);
  });
});

describe('other languages', () => {
  afterEach(() => {
    vi.unstubAllGlobals();
    vi.resetModules();
  });

  const inLanguage = (...languages: string[]) => {
    vi.stubGlobal('navigator', { languages });
    vi.resetModules();
    return import('./format');
  };
  const ms = Date.parse('2026-07-01T22:03:05Z');

  it('have their own numbers and dates', async () => {
    const german = await inLanguage('de-DE', 'en');
    expect([german.count(1_234_567), german.share(1, 20), german.change(12, 11).text]).toEqual([
      '1.234.567',
      '5,0\u00a0%',
      '+9,1\u00a0%',
    ]);
    expect(german.dateTime(ms, 'Europe/Berlin')).toBe('02.07.2026, 00:03');
    expect(german.offsetName(ms, 'Europe/Berlin')).toBe('UTC+02:00');
    const american = await inLanguage('en-US');
    expect(american.hourMinute(ms, 'UTC')).toMatch(/^10:03\sPM$/);
    expect(american.compact(3_400_000)).toBe('3.4M');
  });

  it('are passed over where they are none', async () => {
    expect((await inLanguage('en-US@posix')).count(1_000)).toBe('1,000');
  });
});

describe('times', () => {
  it('are in the zone', () => {
    const ms = Date.parse('2026-07-01T22:03:05Z');
    expect(clock(ms, 'Europe/Berlin')).toBe('00:03:05');
    expect(offsetName(ms, 'Europe/Berlin')).toBe('UTC+02:00');
    expect(offsetName(ms, 'UTC')).toBe('UTC');
    expect(offsetName(ms, 'Asia/Kathmandu')).toBe('UTC+05:45');
  });

  it('are spans of two units', () => {
    expect([900, 59_400, 90_000, 3_600_000, 5_400_000, 2_592_000_000].map(span)).toEqual([
      '1 s',
      '59 s',
      '1 min 30 s',
      '1 h',
      '1 h 30 min',
      '30 days',
    ]);
  });

  it('leaves names readable', () => {
    expect(words('bad_batch_signature')).toBe('Bad batch signature');
  });
});
