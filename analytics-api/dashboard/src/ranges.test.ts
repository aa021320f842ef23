import { describe, expect, it } from 'vitest';
import { addDays, dayOf, intervalFor, intervalsFor, isDay, PRESETS, type Preset, resolve } from './ranges';

const at = (text: string) => Date.parse(text);
const preset = (one: Preset, tz: string, now: string) => resolve({ preset: one }, tz, at(now));

describe('ranges', () => {
  it('end with the present half hour, so that nothing new is left out', () => {
    for (const [now, to] of [
      ['2026-11-21T12:03:05Z', '2026-11-21T12:30:00.000Z'],
      ['2026-11-21T12:30:00Z', '2026-11-21T13:00:00.000Z'],
      ['2026-11-21T23:59:59Z', '2026-11-22T00:00:00.000Z'],
    ] as const) {
      for (const one of PRESETS.filter((one) => one !== '1h')) expect(preset(one, 'Asia/Kathmandu', now).to).toBe(to);
    }
    expect(preset('7d', 'UTC', '2026-11-21T23:59:59Z').lengthMs).toBe(7 * 86_400_000);
    // Midnight in Kathmandu is at 18:15 UTC.
    expect(preset('7d', 'Asia/Kathmandu', '2026-11-21T18:05:00Z')).toMatchObject({
      to: '2026-11-21T18:15:00.000Z',
      lengthMs: 7 * 86_400_000,
    });
    expect(preset('month', 'UTC', '2026-11-01T00:01:00Z').to).toBe('2026-11-01T00:02:00.000Z');
  });

  it('of the last hour end with the present minute', () => {
    expect(preset('1h', 'UTC', '2026-11-21T12:03:05Z')).toEqual({
      from: '2026-11-21T11:04:00.000Z',
      to: '2026-11-21T12:04:00.000Z',
      lengthMs: 3_600_000,
      isOpen: true,
    });
    expect(preset('1h', 'UTC', '2026-11-21T12:03:00Z').to).toBe('2026-11-21T12:04:00.000Z');
  });

  it('begin with a local hour or day', () => {
    expect(preset('24h', 'Asia/Kolkata', '2026-11-21T12:03:05Z').from).toBe('2026-11-20T12:30:00.000Z');
    expect(preset('24h', 'UTC', '2026-11-21T12:59:59.500Z')).toMatchObject({
      from: '2026-11-20T13:00:00.000Z',
      to: '2026-11-21T13:00:00.000Z',
    });
    expect(preset('7d', 'Pacific/Auckland', '2026-11-21T12:03:05Z').from).toBe('2026-11-16');
    expect(preset('7d', 'America/Los_Angeles', '2026-11-21T07:00:00Z').from).toBe('2026-11-14');
    expect(preset('month', 'Asia/Tokyo', '2026-10-31T20:00:00Z').from).toBe('2026-11-01');
    expect(preset('month', 'UTC', '2026-10-31T20:00:00Z').from).toBe('2026-10-01');
    expect(preset('30d', 'UTC', '2026-03-01T00:00:00Z').from).toBe('2026-01-31');
  });

  it('of days hold the last one', () => {
    expect(resolve({ fromDay: '2026-02-27', toDay: '2026-02-28' }, 'UTC', 0)).toEqual({
      from: '2026-02-27',
      to: '2026-03-01',
      lengthMs: 2 * 86_400_000,
      isOpen: false,
    });
  });

  it('have an interval that the API answers', () => {
    for (const one of PRESETS) {
      const { lengthMs } = preset(one, 'Europe/Berlin', '2026-11-21T12:03:05Z');
      expect(intervalsFor(lengthMs)).toContain(intervalFor('auto', lengthMs));
    }
    expect(intervalFor('auto', 3_600_000)).toBe('minute');
    expect(intervalFor('auto', 86_400_000)).toBe('hour');
    expect(intervalFor('auto', 30 * 86_400_000)).toBe('day');
    expect(intervalFor('minute', 30 * 86_400_000)).toBe('day');
    expect(intervalFor('week', 90 * 86_400_000)).toBe('week');
    for (const minutes of [1, 7, 59, 61, 600, 1439, 20_000, 600_000, 60_000_000]) {
      expect(intervalsFor(minutes * 60_000).length, `${minutes} minutes`).toBeGreaterThan(0);
    }
  });
});

describe('days', () => {
  it('are local', () => {
    expect(dayOf(at('2026-11-21T23:30:00Z'), 'Europe/Berlin')).toBe('2026-11-22');
    expect(dayOf(at('2026-11-21T00:00:00Z'), 'UTC')).toBe('2026-11-21');
    // Samoa had no 30th of December 2011.
    expect(dayOf(at('2011-12-30T10:30:00Z'), 'Pacific/Apia')).toBe('2011-12-31');
  });

  it('are those of the calendar', () => {
    expect(isDay('2024-02-29')).toBe(true);
    for (const none of ['2023-02-29', '2024-13-01', '2024-1-1', '', '2024-02-30', 'today'])
      expect(isDay(none)).toBe(false);
    expect(addDays('2024-02-28', 2)).toBe('2024-03-01');
  });
});
