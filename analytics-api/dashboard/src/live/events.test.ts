import { describe, expect, it } from 'vitest';
import { EventParser } from './events';

const STREAM =
  ': hello\r\nid: 7\r\nevent: totals\r\ndata: {"a":\r\ndata: 1}\r\n\r\nretry: 1500\rdata:x\r\rid: 8\ndata: ü\n\n: beat\n\n';

describe('EventParser', () => {
  it('reads events however the text is cut', () => {
    const wanted = [
      { event: 'totals', data: '{"a":\n1}' },
      { event: 'message', data: 'x' },
      { event: 'message', data: 'ü' },
    ];
    for (let size = 1; size <= STREAM.length; size++) {
      const parser = new EventParser();
      const events = [];
      for (let at = 0; at < STREAM.length; at += size) events.push(...parser.push(STREAM.slice(at, at + size)));
      expect(events, `pieces of ${size}`).toEqual(wanted);
      expect(parser.lastId).toBe('8');
      expect(parser.retryMs).toBe(1500);
    }
  });

  it('resumes after the last whole event only', () => {
    const parser = new EventParser();
    parser.push('id: 1\ndata: a\n\nid: 2\ndata: b\n');
    expect(parser.lastId).toBe('1');
    parser.push('\n');
    expect(parser.lastId).toBe('2');
  });

  it('keeps no event without an end for ever, and doesn’t ask for it again', () => {
    const parser = new EventParser();
    parser.push('id: 1\ndata: a\n\nid: 2\n');
    expect(parser.lastId).toBe('1');
    const line = `data: ${'x'.repeat(1 << 20)}\n`;
    expect(() => {
      for (let n = 0; n < 8; n++) parser.push(line);
    }).toThrow('too long');
    expect(parser.lastId).toBeNull();
  });
});
