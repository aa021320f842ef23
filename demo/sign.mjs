// Builds and signs the demo's requests with Node: `node sign.mjs OUTBOX PUBLISHER`.
//
// Each request is a body in a file and a line in OUTBOX/node.ndjson: where it goes, with which header, what the
// gateway must answer, and how each receipt in it must end.

import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createHash, randomUUID } from 'node:crypto';
import { ALGORITHMS, Signer, payloadHash } from './signer.mjs';

const [outbox, publisher] = process.argv.slice(2);
if (!publisher) throw new Error('usage: node sign.mjs OUTBOX PUBLISHER');
mkdirSync(outbox, { recursive: true });
const manifest = join(outbox, 'node.ndjson');
writeFileSync(manifest, '');

const HOUR_MS = 3_600_000;
const PURPOSES = {
  training: { datasetId: 'corpus-7', modelId: 'model-a' },
  inference: { queryId: 'q-81', sessionId: 's-12' },
  research: { studyId: 'study-3', researcherId: 'r-5' },
};
const ENTRIES = ['lead', 'sport', 'science', 'weather', 'culture'].map((slug) => ({
  entryId: randomUUID(),
  url: `https://${publisher}/${slug}`,
}));

let made = 0;

/** A receipt without signature. The n-th one's entry, purpose and hour differ from its neighbours'. */
function receipt(client, changes = {}) {
  const n = made++;
  const purpose = Object.keys(PURPOSES)[n % 3];
  const { entryId, url } = ENTRIES[(n * n + (n >> 3)) % ENTRIES.length];
  const hoursAgo = (n * n * 7) % 66;
  const base = {
    version: '1.0.0',
    receiptId: randomUUID(),
    timestamp: new Date(Date.now() - 120_000 - hoursAgo * HOUR_MS).toISOString(),
    content: { entryId, url, contentHash: `sha256:${createHash('sha256').update(url).digest('hex')}`, publisher },
    client,
    usage: { purpose, context: `demo ${purpose}`, ...PURPOSES[purpose] },
  };
  return { ...base, ...changes };
}

/** How a receipt must end; what the numbers are made of. */
function ends(of, outcome, reason = null) {
  return {
    receiptId: of.receiptId, payloadHash: payloadHash(of), outcome, reason, timestamp: of.timestamp,
    publisher: of.content.publisher, entryId: of.content.entryId, clientId: of.client.id, purpose: of.usage.purpose,
  };
}

const verified = (of) => ends(of, 'verified');
const duplicate = (of) => ends(of, 'duplicate');
const rejected = (of, reason) => ends(of, 'rejected', reason);

/** Puts a request into the outbox. `signer` makes the header over exactly these bytes. */
function request(name, body, { signer, signature, path = '/api/v1/receipts', status = 202, code = null, pointer = null,
  contentType = 'application/json', encoding = null, receipts = [] }) {
  const file = `node-${String(made).padStart(4, '0')}-${name.replaceAll(/[^a-z0-9]+/gi, '-').toLowerCase()}-${randomUUID().slice(0, 4)}.json`;
  writeFileSync(join(outbox, file), body);
  const header = signature === undefined ? signer.sign(Buffer.from(body)) : signature;
  const line = { name, file, path, signature: header, contentType, encoding, status, code, pointer, receipts };
  appendFileSync(manifest, `${JSON.stringify(line)}\n`);
}

/** As text in one of several spellings: what is signed is the canonical form, so spelling must not matter. */
function spell(document, n = made) {
  const reversed = (value) => (value && typeof value === 'object' && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).reverse().map(([k, v]) => [k, reversed(v)]))
    : value);
  if (n % 3 === 0) return JSON.stringify(document);
  if (n % 3 === 1) return JSON.stringify(reversed(document), null, 2);
  return JSON.stringify(document).replaceAll('/', '\\/').replaceAll('€', '\\u20AC');
}

function single(name, signer, unsigned, options = {}) {
  const signed = signer.signed(unsigned);
  request(name, spell(signed), { signer, receipts: [verified(signed)], ...options });
  return signed;
}

function batchOf(signer, receipts) {
  return signer.signed({ version: '1.0.0', batchId: `batch-${randomUUID()}`, receipts });
}

function batch(name, signer, receipts, ended, options = {}) {
  const body = spell(batchOf(signer, receipts));
  request(name, body, { signer, path: '/api/v1/receipts/batch', receipts: ended, ...options });
}

// Unknown members are signed over too: names out of order by UTF-16, numbers at ECMAScript's edges, escapes.
const EXTRA = {
  note: 'Zürich \u20ac \u{1D11E} "quoted" \\ \u0007 \u2028', '\u{1F600}': 1, '\ufb33': 2, '': -0, nested: [{ b: [], a: {} }, null, true],
  numbers: [0.1, 1e21, 1e-7, 333333333.33333329, 4.50, 2e-3, 5e-324, 1.7976931348623157e308, 9007199254740993, -1.5],
};

const signers = [
  new Signer('Ed25519', { name: 'Node Ed25519' }),
  new Signer('RSA-2048', { name: 'Node RSA' }),
  new Signer('ECDSA-P256', { name: 'Node ECDSA, DER' }),
  new Signer('ECDSA-P256', { name: 'Node ECDSA, 64 bytes', raw: true }),
];

for (const signer of signers) {
  const { client, algorithm } = signer;
  const kind = `${algorithm}${signer.encoding === 'der' ? '' : ' raw'}`;
  const sent = [];
  for (let n = 0; n < 8; n++) {
    const extra = n % 4 === 1 ? { extension: EXTRA } : {};
    const encoding = [null, 'gzip', 'zstd'][n % 3];
    sent.push(single(`${kind} single`, signer, receipt(client, extra), { encoding }));
  }

  // A retry: the same bytes once more, and the same receipt inside a batch.
  request(`${kind} retry`, spell(sent[0]), { signer, receipts: [duplicate(sent[0])] });
  const inBatch = Array.from({ length: 20 }, () => signer.signed(receipt(client)));
  batch(`${kind} batch`, signer, [...inBatch, sent[1]], [...inBatch.map(verified), duplicate(sent[1])], { encoding: 'zstd' });

  // One receipt of a batch changed before the batch was signed: that one alone is refused.
  const good = signer.signed(receipt(client));
  const changed = { ...signer.signed(receipt(client)), version: '1.0.0' };
  changed.usage = { ...changed.usage, context: 'something else' };
  batch(`${kind} batch with a tampered receipt`, signer, [good, changed], [verified(good), rejected(changed, 'bad_signature')]);

  // Changed after signing.
  const tampered = signer.signed(receipt(client));
  tampered.content = { ...tampered.content, url: `${tampered.content.url}?changed` };
  request(`${kind} tampered`, spell(tampered), { signer, receipts: [rejected(tampered, 'bad_signature')] });

  // A batch changed after it was signed: its receipts are good, it isn't. The gateway refuses it.
  const pair = [signer.signed(receipt(client)), signer.signed(receipt(client))];
  const torn = { ...batchOf(signer, pair), batchId: 'another' };
  request(`${kind} tampered batch`, spell(torn), {
    signer, path: '/api/v1/receipts/batch', status: 401, code: 'bad_batch_signature', pointer: '/signature',
  });

  // The header signs other bytes.
  const unheaded = signer.signed(receipt(client));
  request(`${kind} wrong header`, spell(unheaded), {
    signature: signer.sign(Buffer.from('other bytes')), status: 401, code: 'bad_request_signature',
  });
}

// Another publisher's receipts must not show in ours.
for (let n = 0; n < 3; n++) {
  const foreign = receipt(signers[0].client);
  const other = `other-${publisher}`;
  foreign.content = { ...foreign.content, publisher: other, url: `https://${other}/lead` };
  single('another publisher', signers[0], foreign);
}

// One id under two payloads: both are kept, and the id is flagged.
const first = single('conflict, first', signers[0], receipt(signers[0].client));
single('conflict, second', signers[0], receipt(signers[0].client, { receiptId: first.receiptId }));

// What the gateway refuses at once, with status, code and place.
const ed = signers[0];
const broken = (name, change, code, pointer) => {
  const document = change(structuredClone(ed.signed(receipt(ed.client))));
  const body = typeof document === 'string' ? document : JSON.stringify(document);
  request(name, body, { signer: ed, status: 400, code, pointer });
};
const set = (path, value) => (document) => {
  const members = path.split('/');
  const last = members.pop();
  const parent = members.reduce((at, member) => at[member], document);
  if (value === undefined) delete parent[last]; else parent[last] = value;
  return document;
};
broken('not JSON', () => '{"version": nope}', 'invalid_json', '/version');
broken('cut off', (d) => JSON.stringify(d).slice(0, 300), 'invalid_json', '/content');
broken('two values', (d) => `${JSON.stringify(d)}{}`, 'trailing_data', '');
broken('duplicate member', (d) => JSON.stringify(d).replace('{', '{"version":"1.0.0",'), 'duplicate_member', '/version');
broken('no content hash', set('content/contentHash', undefined), 'missing_member', '/content/contentHash');
broken('bad content hash', set('content/contentHash', 'sha256:xyz'), 'invalid_content_hash', '/content/contentHash');
broken('a number for a string', set('usage/context', 7), 'wrong_type', '/usage/context');
broken('bad UUID', set('receiptId', 'not-a-uuid'), 'invalid_uuid', '/receiptId');
broken('bad purpose', set('usage/purpose', 'fun'), 'invalid_purpose', '/usage/purpose');
broken('tomorrow', set('timestamp', new Date(Date.now() + 24 * HOUR_MS).toISOString()), 'timestamp_out_of_range', '/timestamp');
broken('last year', set('timestamp', new Date(Date.now() - 365 * 24 * HOUR_MS).toISOString()), 'timestamp_out_of_range', '/timestamp');
broken('unknown algorithm', set('signatureAlgorithm', 'HS256'), 'unsupported_algorithm', '/signatureAlgorithm');
broken('another kind of key', set('signatureAlgorithm', 'RSA-2048'), 'key_algorithm_mismatch', '/client/publicKey');
broken('bad base64', set('signature', '***'), 'invalid_base64', '/signature');
broken('unknown version', set('version', '9.0.0'), 'unsupported_version', '/version');
request('empty batch', JSON.stringify(batchOf(ed, [])), {
  signer: ed, path: '/api/v1/receipts/batch', status: 400, code: 'empty_batch', pointer: '/receipts',
});
const mixed = [signers[0], signers[1]].map((s) => s.signed(receipt(s.client)));
request('two keys in a batch', JSON.stringify(batchOf(ed, mixed)), {
  signer: ed, path: '/api/v1/receipts/batch', status: 400, code: 'mixed_keys', pointer: '/receipts/1/client/publicKey',
});
const plain = JSON.stringify(ed.signed(receipt(ed.client)));
request('no request signature', plain, { signature: null, status: 401, code: 'missing_request_signature' });
request('not JSON by its type', plain, { signer: ed, contentType: 'text/plain', status: 415, code: 'unsupported_media_type' });
request('too large', JSON.stringify({ ...JSON.parse(plain), padding: 'x'.repeat(66 * 1024) }), { signer: ed, status: 413 });

console.log(`node: ${made} receipts signed by ${ALGORITHMS.join(', ')}`);
