import { describe, expect, it } from 'vitest';
import { explain, Problem, problemOf } from './problem';

const answer = (status: number, body: unknown, headers: Record<string, string> = {}) =>
  new Response(typeof body === 'string' ? body : JSON.stringify(body), { status, headers });

describe('problems', () => {
  it('are reported in words, each with what to do', async () => {
    for (const [status, code, title] of [
      [400, 'invalid_query', 'This selection can’t be answered'],
      [401, 'invalid_api_key', 'This API key isn’t valid'],
      [401, 'expired_api_key', 'This API key has expired'],
      [403, 'insufficient_scope', 'This API key may not read'],
      [403, 'no_verified_domain', 'No verified domain'],
      [403, 'domain_not_verified', 'Not your domain'],
      [403, 'insufficient_role', 'Your role doesn’t allow this'],
      [404, 'not_found', 'Nothing here'],
      [429, 'rate_limited', 'Too many requests'],
      [503, 'warehouse_unavailable', 'Busy or unavailable'],
      [500, 'internal', 'Something went wrong'],
    ] as const) {
      const words = explain(
        await problemOf(answer(status, { code, detail: 'why it is so, in words' }, { 'retry-after': '7' })),
      );
      expect(words.title).toBe(title);
      expect(words.advice.length).toBeGreaterThan(10);
    }
    expect(explain(new Problem(429, 'rate_limited', '', 7)).advice).toBe(
      'The requests of your account are used up for now. Trying again in 7 s.',
    );
    const quota = new Problem(429, 'rate_limited', '60 requests are allowed; try again in 7 s', 7);
    expect(explain(quota).advice).toBe('60 requests are allowed. Trying again in 7 s.');
    const streams = new Problem(429, 'rate_limited', 'this account reads two streams; end one first', 10);
    expect(explain(streams, { retried: false }).advice).toBe(
      'This account reads two streams; end one first. Try again in 10 s.',
    );
    expect(explain(new Problem(0, 'unreachable', '')).title).toBe('No answer');
    const other = new Problem(403, 'domain_not_verified', 'other.example is not a verified domain');
    expect(explain(other)).toEqual({ title: 'Not your domain', advice: 'other.example is not a verified domain.' });
    const none = explain(new Problem(403, 'no_verified_domain', 'your account has no verified domain'));
    expect(none.title).toBe('No verified domain');
    expect(none.advice).toMatch(/^Your account has no verified domain\. POST .* sign in again\.$/);
  });

  it('come from whatever answered', async () => {
    const page = await problemOf(answer(502, '<html>Bad gateway</html>'));
    expect([page.code, page.detail, page.passes]).toEqual(['http_502', '', true]);
    const odd = await problemOf(answer(400, { code: 7, detail: ['x'], errors: 'none' }));
    expect([odd.code, odd.detail, odd.passes]).toEqual(['http_400', '', false]);
    const fault = await problemOf(
      answer(400, { code: 'invalid_query', detail: 'one fault', errors: [{ detail: 'from must be before to' }] }),
    );
    expect(fault.detail).toBe('from must be before to');
    expect(
      (await problemOf(answer(429, {}, { 'retry-after': 'Wed, 21 Oct 2026 07:28:00 GMT' }))).retryAfterS,
    ).toBeNull();
  });
});
