import { afterEach, describe, expect, it, vi } from 'vitest';
import { authorized } from './api/http';
import { saveCsv, withoutCursor } from './csv';

vi.mock('./api/http', () => ({ authorized: vi.fn() }));

describe('pages of CSV', () => {
  it('lose their cursors, and end with the last one', () => {
    const csv = 'title,receiptCount,cursor\r\n"a, ""b""\r\nc",2,\r\nd,1,WzE3\r\n';
    expect(withoutCursor(csv)).toEqual({
      records: ['title,receiptCount', '"a, ""b""\r\nc",2', 'd,1'],
      cursor: 'WzE3',
    });
  });

  it('are the last one without a cursor, and may have no rows', () => {
    expect(withoutCursor('title,cursor\r\na,\r\n').cursor).toBe('');
    expect(withoutCursor('title,cursor\r\n')).toEqual({ records: ['title'], cursor: '' });
  });

  it('are left alone where the table has none', () => {
    expect(withoutCursor('start,value\r\n1,"2,cursor"\r\n')).toEqual({
      records: ['start,value', '1,"2,cursor"'],
      cursor: '',
    });
  });
});

describe('a download', () => {
  afterEach(() => {
    vi.unstubAllGlobals();
    vi.restoreAllMocks();
  });

  it('ends at its limit, and says that there is more', async () => {
    vi.mocked(authorized).mockImplementation(
      async () =>
        new Response('id,cursor\r\na,\r\nb,Wz=\r\n', {
          headers: { 'content-disposition': 'attachment; filename="list.csv"' },
        }),
    );
    const link = { href: '', download: '', click: vi.fn() };
    const saved: Blob[] = [];
    vi.stubGlobal('document', { createElement: () => link });
    vi.spyOn(URL, 'createObjectURL').mockImplementation((blob) => `blob:${saved.push(blob as Blob)}`);
    const rows: number[] = [];
    const signal = new AbortController().signal;
    expect(await saveCsv('http://here/list?limit=2', signal, (now) => rows.push(now), 5)).toBe(false);
    expect(rows).toEqual([2, 4, 6]);
    expect(await saved[0]?.text()).toBe(`id\r\n${'a\r\nb\r\n'.repeat(3)}`);
    expect([link.download, link.click.mock.calls.length]).toEqual(['list.csv', 1]);
    const asked = vi.mocked(authorized).mock.calls.map(([request]) => request.url);
    expect(asked.slice(0, 2)).toEqual(['http://here/list?limit=2', 'http://here/list?limit=2&cursor=Wz%3D']);
  });
});
