import { describe, expect, it } from 'vitest';
import { withoutCursor } from './csv';

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
