// Builds the page into a temporary folder and compares it with the committed dist/, byte for byte.

import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build } from 'vite';

const built = mkdtempSync(join(tmpdir(), 'receipts-page-'));
try {
  await build({ build: { outDir: built, emptyOutDir: true }, logLevel: 'warn' });
  const [now, committed] = [built, 'dist'].map(files);
  const names = [...new Set([...now.keys(), ...committed.keys()])].sort();
  const other = names.filter((name) => !committed.get(name)?.equals(now.get(name) ?? Buffer.alloc(0)));
  if (other.length > 0) {
    process.stderr.write(`dist/ isn't what the sources make (${other.join(', ')}): run \`make page\` and commit it\n`);
    process.exitCode = 1;
  }
} finally {
  rmSync(built, { recursive: true, force: true });
}

function files(folder) {
  const found = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return new Map(
    found.map((entry) => {
      const path = join(entry.parentPath, entry.name);
      return [path.slice(folder.length + 1), readFileSync(path)];
    }),
  );
}
