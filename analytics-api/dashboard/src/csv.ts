// A table as the API writes it, saved as one file. The API gives long lists in pages: a page's last
// row says where the next one begins.

import { authorized } from './api/http';
import { Problem } from './api/problem';

/** Rows that one file has at most: they are in memory until the last one is there. */
export const CSV_ROWS_MAX = 100_000;
/** A quota that is used up for longer than this ends the download. */
const WAIT_S_MAX = 70;
const END = '\r\n';

/** Saves the rows of `address`; returns whether these are all that there are. */
export async function saveCsv(
  address: string,
  signal: AbortSignal,
  onRows: (rows: number) => void,
  rowsMax = CSV_ROWS_MAX,
): Promise<boolean> {
  const parts: string[] = [];
  let cursor = '';
  let rows = 0;
  let name = 'receipts.csv';
  do {
    const response = await ask(cursor ? `${address}&cursor=${encodeURIComponent(cursor)}` : address, signal);
    name = /filename="([^"]+)"/.exec(response.headers.get('content-disposition') ?? '')?.[1] ?? name;
    const page = withoutCursor(await response.text());
    parts.push(...(parts.length === 0 ? page.records : page.records.slice(1)));
    rows = parts.length - 1;
    cursor = page.cursor;
    onRows(rows);
  } while (cursor && rows < rowsMax);
  save(
    new Blob(
      parts.map((record) => record + END),
      { type: 'text/csv' },
    ),
    name,
  );
  return cursor === '';
}

/** One page; a quota that comes back soon is waited for. */
async function ask(address: string, signal: AbortSignal): Promise<Response> {
  for (;;) {
    try {
      return await authorized(new Request(address, { headers: { accept: 'text/csv' }, signal }));
    } catch (error) {
      const waitS = error instanceof Problem && error.status === 429 ? error.retryAfterS : null;
      if (waitS === null || waitS > WAIT_S_MAX) throw error;
      await new Promise((done) => setTimeout(done, waitS * 1000));
      signal.throwIfAborted();
    }
  }
}

/**
 * The records of a CSV text, the names of its columns first, without the column of cursors, and
 * the last record's cursor. A table that isn't given in pages has no such column.
 */
export function withoutCursor(csv: string): { records: string[]; cursor: string } {
  const records = recordsOf(csv);
  if (!records[0]?.endsWith(',cursor')) return { records, cursor: '' };
  // A cursor has no comma in it, and needs no quotes.
  const ends = records.map((record) => record.lastIndexOf(','));
  const last = records.length - 1;
  return {
    records: records.map((record, at) => record.slice(0, ends[at])),
    cursor: last === 0 ? '' : (records[last] ?? '').slice((ends[last] ?? 0) + 1),
  };
}

/** A line end between quotes is part of its cell. */
function recordsOf(csv: string): string[] {
  const records: string[] = [];
  let open = '';
  for (const line of csv.split(END)) {
    open = open ? open + END + line : line;
    if ((open.split('"').length - 1) % 2 === 1) continue;
    if (open) records.push(open);
    open = '';
  }
  return records;
}

function save(content: Blob, name: string): void {
  const url = URL.createObjectURL(content);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  // The download has its own hold on the bytes once it has begun.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
