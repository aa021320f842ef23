// Run by interop.sh.

import test from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { randomUUID } from 'node:crypto';
import canonicalize from 'canonicalize';
import { ALGORITHMS, Signer, payloadHash, signedBytes, verifies } from './signer.mjs';

const bin = process.env.RECEIPTS_DEMO_BIN;
const outbox = process.env.RECEIPTS_DEMO_OUTBOX;
const work = mkdtempSync(join(tmpdir(), 'receipts-interop-'));

const receipts = (args, input = '') => spawnSync(bin, args, { input: Buffer.from(input), maxBuffer: 1 << 28 });
const lines = (buffer) => buffer.toString().split('\n').filter(Boolean).map((line) => JSON.parse(line));
const requests = ['node', 'openssl'].flatMap((who) => lines(readFileSync(join(outbox, `${who}.ndjson`))));

test('what Node and OpenSSL sign has the verdict it must have', () => {
  // Offline there is no earlier receipt: that outcome is the service's alone.
  const offline = ({ outcome, reason }) => (outcome === 'duplicate'
    ? { outcome: 'verified', reason: null } : { outcome, reason });
  let checked = 0;
  for (const request of requests.filter((r) => r.status === 202)) {
    const { stdout, status } = receipts(['verify', join(outbox, request.file)]);
    const wanted = request.receipts.map((r) => ({ receiptId: r.receiptId, ...offline(r) }));
    assert.deepEqual(lines(stdout), wanted, request.name);
    assert.equal(status, wanted.every((w) => w.outcome === 'verified') ? 0 : 1, request.name);
    checked += wanted.length;
  }
  assert.ok(checked > 100);
});

test('a payload hash is the outside one', () => {
  const request = requests.find((r) => r.receipts.length === 1);
  const { stdout } = receipts(['verify', '--explain', '--json', join(outbox, request.file)]);
  assert.ok(stdout.toString().includes(request.receipts[0].payloadHash));
});

test('one changed byte of any signed member is refused', () => {
  const signer = new Signer('ECDSA-P256');
  const signed = signer.signed({
    version: '1.0.0', receiptId: randomUUID(), timestamp: new Date().toISOString(),
    content: { entryId: randomUUID(), url: 'https://news.example/a', contentHash: `sha256:${'ab'.repeat(32)}`, publisher: 'news.example' },
    client: signer.client,
    usage: { purpose: 'training', context: 'interop', datasetId: 'd', modelId: 'm' },
  });
  const changed = [];
  const leaves = (value, path) => (typeof value === 'object'
    ? Object.entries(value).flatMap(([k, v]) => leaves(v, [...path, k])) : [path]);
  for (const path of leaves(signed, []).filter(([first]) => !first.startsWith('signature'))) {
    const copy = structuredClone(signed);
    const parent = path.slice(0, -1).reduce((at, k) => at[k], copy);
    const text = parent[path.at(-1)];
    const at = text.length >> 1;
    parent[path.at(-1)] = text.slice(0, at) + (text[at] === 'a' ? 'b' : text[at] === '0' ? '1' : 'a') + text.slice(at + 1);
    changed.push({ path: path.join('.'), copy });
  }
  const { stdout, status } = receipts(['verify'], changed.map(({ copy }) => JSON.stringify(copy)).join('\n'));
  const verdicts = lines(stdout);
  assert.equal(status, 1);
  assert.equal(verdicts.length, changed.length);
  verdicts.forEach((verdict, n) => assert.equal(verdict.outcome, 'rejected', changed[n].path));
});

for (const algorithm of ALGORITHMS) {
  test(`what receipts signs with ${algorithm}, Node and OpenSSL verify`, () => {
    const key = join(work, `${algorithm}.key`);
    assert.equal(receipts(['keygen', '--algorithm', algorithm, '--out', key]).status, 0);
    assert.equal(statSync(key).mode & 0o777, 0o600);
    const publicPem = readFileSync(`${key}.pub`, 'utf8');
    assert.equal(execFileSync('openssl', ['pkey', '-in', key, '-pubout'], { encoding: 'utf8' }), publicPem);

    const { client } = new Signer(algorithm);
    const unsigned = () => ({
      version: '1.0.0', receiptId: randomUUID(), timestamp: new Date().toISOString(),
      content: { entryId: randomUUID(), url: 'https://news.example/ü', contentHash: `sha256:${'0f'.repeat(32)}`, publisher: 'news.example' },
      client: { ...client, publicKey: publicPem },
      usage: { purpose: 'research', context: 'interop', studyId: 's', researcherId: 'r', '\u{1F600}': [1e21, 0.1, { b: 1, a: 'é' }] },
    });
    const batch = { version: '1.0.0', batchId: 'b-1', receipts: [unsigned(), unsigned()] };
    const run = receipts(['sign', '--key', key], [unsigned(), batch].map((d) => JSON.stringify(d)).join('\n'));
    assert.equal(run.status, 0, run.stderr.toString());
    const [one, two] = lines(run.stdout);
    for (const document of [one, two, ...two.receipts]) {
      assert.equal(document.signatureAlgorithm, algorithm);
      assert.ok(verifies(document, publicPem), 'Node');
      assert.ok(opensslVerifies(document, `${key}.pub`), 'OpenSSL');
    }
    assert.equal(receipts(['verify'], run.stdout).status, 0);
  });
}

function opensslVerifies(document, publicFile) {
  const [bytes, signature] = [join(work, 'bytes'), join(work, 'signature')];
  writeFileSync(bytes, signedBytes(document));
  writeFileSync(signature, Buffer.from(document.signature, 'base64'));
  const args = document.signatureAlgorithm === 'Ed25519'
    ? ['pkeyutl', '-verify', '-pubin', '-inkey', publicFile, '-rawin', '-in', bytes, '-sigfile', signature]
    : ['dgst', '-sha256', '-verify', publicFile, '-signature', signature, bytes];
  return spawnSync('openssl', args).status === 0;
}

test('canonical bytes are those of the npm package', () => {
  const values = [
    {}, [], '', 0, null, true, { '\ufb33': 1, '\u{1F600}': 2, '\r': 3, 1: 4, '€': 5, ö: 6 },
    [333333333.33333329, 1e30, 4.5, 2e-3, 1e-27, 1e21, 1e20, 5e-324, 9007199254740993, 1.7976931348623157e308, 123456789012345680000],
    { text: '\u20ac$\u000f\nA\'B"\\\\"/\u2028\u007f' },
  ];
  // Doubles of every size, by their bits.
  const view = new DataView(new ArrayBuffer(8));
  for (let n = 0; n < 200; n++) {
    view.setUint32(0, Math.imul(n + 1, 2654435761) >>> 0);
    view.setUint32(4, Math.imul(n + 7, 2246822519) >>> 0);
    const number = view.getFloat64(0);
    if (Number.isFinite(number)) values[7].push(number);
  }
  for (const value of values) {
    const { stdout, status, stderr } = receipts(['canonicalize'], JSON.stringify(value, null, 1));
    assert.equal(status, 0, stderr.toString());
    assert.equal(stdout.toString(), canonicalize(value));
  }
});

test('raw checks agree with who made them', () => {
  const checks = ALGORITHMS.flatMap((algorithm) => [false, true].flatMap((raw) => {
    const signer = new Signer(algorithm, { raw });
    const message = Buffer.from(`checked ${algorithm}`);
    const check = { algorithm, publicKey: signer.publicPem, message: message.toString('base64'), signature: signer.sign(message) };
    return [[check, true], [{ ...check, message: Buffer.from('other').toString('base64') }, false]];
  }));
  const input = checks.map(([check], id) => JSON.stringify({ id, ...check })).join('\n');
  for (const block of ['1', '5', '256']) {
    const verdicts = lines(receipts(['verify', '--raw-signatures', '--block', block], input).stdout);
    assert.deepEqual(verdicts.map((v) => [v.id, v.valid]), checks.map(([, valid], id) => [id, valid]));
  }
});
