// Reads JSON texts from stdin, one a line, and writes their canonical forms, one a line. A text
// without a canonical form gets an empty line, and its reason on stderr. Run `npm run build` first.

import { once } from "node:events";

import { CanonicalError, canonicalize, parse } from "receipts-client";

const LINE_FEED = Buffer.from("\n");
let rest = Buffer.alloc(0);
let number = 0;

// Not by node:readline, which also splits at U+2028.
for await (const chunk of process.stdin) {
  rest = rest.length ? Buffer.concat([rest, chunk]) : chunk;
  const lines = [];
  let start = 0;
  for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10, start)) {
    lines.push(canonicalLine(rest.subarray(start, end)), LINE_FEED);
    start = end + 1;
  }
  rest = rest.subarray(start);
  await write(Buffer.concat(lines));
}
if (rest.length) await write(Buffer.concat([canonicalLine(rest), LINE_FEED]));

function canonicalLine(line) {
  number++;
  try {
    return canonicalize(parse(line));
  } catch (error) {
    if (!(error instanceof CanonicalError)) throw error;
    console.error(`line ${number}: ${error.message}`);
    return Buffer.alloc(0);
  }
}

async function write(bytes) {
  if (!process.stdout.write(bytes)) await once(process.stdout, "drain");
}
