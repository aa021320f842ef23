// A table as the API writes it: requested as CSV and saved as it comes.

import { authorized } from './api/http';

/** Saves the answer of `address` as a file. */
export async function saveCsv(address: string, name: string): Promise<void> {
  const response = await authorized(new Request(address, { headers: { accept: 'text/csv' } }));
  const url = URL.createObjectURL(await response.blob());
  const link = document.createElement('a');
  link.href = url;
  link.download = `${name}.csv`;
  link.click();
  // The download has its own hold on the bytes once it has begun.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
