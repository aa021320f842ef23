import { describe, expect, it } from 'vitest';
import { parsePlace, placeHash } from './place';

const ID = '0d3f8a52-1111-4abc-8def-0123456789ab';

describe('places', () => {
  it('survive the address', () => {
    for (const hash of [
      '#/',
      '#/?range=30d&tz=Asia/Tokyo',
      '#/?range=2026-11-01..2026-11-05&interval=hour&purpose=training',
      '#/?range=2026-11-01T00:00:00.000Z..2026-11-01T02:00:00.000Z&metric=clients',
      `#/content/${ID}?range=1h&model=gpt+4%26x%3D1`,
      `#/clients/${ID}?domain=news.example`,
    ]) {
      expect(placeHash(parsePlace(hash))).toBe(hash);
    }
  });

  it('pass over what they don’t know', () => {
    const plain = placeHash(parsePlace(''));
    for (const hash of [
      '#/nowhere',
      '#/content/../../etc',
      '#/content/<script>',
      '#/?range=forever&interval=second&tz=Mars/Olympus&purpose=fun&metric=cats',
      '#/?range=2026-11-05..2026-11-01',
      '#/?range=2026-02-30..2026-03-01',
      '#/?tz=%2B02:00',
      `#/?model=${'x'.repeat(2000)}`,
    ]) {
      expect(placeHash(parsePlace(hash)), hash).toBe(plain);
    }
  });
});
