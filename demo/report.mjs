// Shows what the publisher sees and checks every number of it against what was sent. Run by run.sh.

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const { DEMO_BIN: bin, DEMO_DATA: data, DEMO_OUTBOX: outbox, DEMO_ANALYTICS: analytics, DEMO_KEY: key, DEMO_PUBLISHER: publisher } = process.env;
const readLines = (name) => readFileSync(join(outbox, name), 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line));

const colour = process.stdout.isTTY && !process.env.NO_COLOR;
const paint = (code, text) => (colour ? `\x1b[${code}m${text}\x1b[0m` : text);
const WAIT_MS_MAX = 60_000;

// ---- Checks -----------------------------------------------------------------------------------------------------

let checked = 0;
const faults = [];

function check(what, is, wanted) {
  checked++;
  const sorted = (value) => JSON.stringify(value, (_, v) => (v && typeof v === 'object' && !Array.isArray(v)
    ? Object.fromEntries(Object.entries(v).sort()) : v));
  if (sorted(is) !== sorted(wanted)) faults.push(`${what}: is ${JSON.stringify(is)}, should be ${JSON.stringify(wanted)}`);
}

const countBy = (list, of) => {
  const counts = {};
  for (const item of list) counts[of(item)] = (counts[of(item)] ?? 0) + 1;
  return counts;
};
const unique = (list) => new Set(list).size;

async function get(path, status = 200) {
  const response = await fetch(analytics + path, { headers: { authorization: `Bearer ${key}` } });
  const body = await response.json();
  if (response.status !== status) throw new Error(`GET ${path}: ${response.status} ${JSON.stringify(body)}`);
  return body;
}

// ---- What was sent ----------------------------------------------------------------------------------------------

const requests = [...readLines('node.ndjson'), ...readLines('openssl.ndjson')];
const answers = new Map(readLines('answers.ndjson').map((answer) => [answer.file, answer]));
for (const request of requests) {
  const { status, answer } = answers.get(request.file) ?? {};
  const first = answer?.errors?.[0];
  check(`${request.name}: status`, status, request.status);
  if (status !== request.status) console.log(`  ${request.name}: ${JSON.stringify(answer)}`);
  if (status === 202 && request.path.endsWith('/batch')) check(`${request.name}: receiptCount`, answer.receiptCount, request.receipts.length);
  if (status === 202 && !request.path.endsWith('/batch')) check(`${request.name}: receiptId`, answer.receiptId, request.receipts[0].receiptId);
  if (request.code) check(`${request.name}: code`, [answer?.code, first?.code].includes(request.code) && request.code, request.code);
  if (request.pointer !== null && request.status === 400) check(`${request.name}: pointer`, first?.pointer, request.pointer);
}
const acknowledgedBy = Date.now();
const all = requests.flatMap((request) => request.receipts);
const ours = all.filter((receipt) => receipt.publisher === publisher);
const verified = ours.filter((receipt) => receipt.outcome === 'verified');
const rejected = ours.filter((receipt) => receipt.outcome === 'rejected');
const refusedAtOnce = requests.filter((request) => request.status >= 400);

// ---- What the publisher sees ------------------------------------------------------------------------------------

async function completeDashboard() {
  for (const started = Date.now(); ;) {
    const dashboard = await get('/api/v1/analytics/dashboard?limit=100');
    if (Date.parse(dashboard.completeThrough) > acknowledgedBy) return dashboard;
    if (Date.now() - started > WAIT_MS_MAX) throw new Error(`after ${WAIT_MS_MAX} ms still only complete through ${dashboard.completeThrough}`);
    await new Promise((resume) => setTimeout(resume, 50));
  }
}

const row = (label, value, note = '') => console.log(`  ${label.padEnd(26)} ${String(value).padStart(6)}  ${paint(2, note)}`);

const dashboard = await completeDashboard();
console.log(paint(1, `Dashboard of ${publisher}`) + paint(2, `   complete through ${dashboard.completeThrough}`));
row('receipts', dashboard.totalReceipts);
row('clients', dashboard.uniqueClients);
for (const [purpose, count] of Object.entries(dashboard.usageByPurpose)) row(`for ${purpose}`, count);
for (const top of dashboard.topContent) row('', top.receiptCount, top.url);

const zeros = Object.fromEntries(Object.keys(dashboard.usageByPurpose).map((purpose) => [purpose, 0]));
check('totalReceipts', dashboard.totalReceipts, verified.length);
check('uniqueClients', dashboard.uniqueClients, unique(verified.map((r) => r.clientId)));
check('usageByPurpose', dashboard.usageByPurpose, { ...zeros, ...countBy(verified, (r) => r.purpose) });
check('topContent', Object.fromEntries(dashboard.topContent.map((t) => [t.entryId, t.receiptCount])), countBy(verified, (r) => r.entryId));

for (const interval of ['hour', 'day']) {
  const step = interval === 'hour' ? 3_600_000 : 86_400_000;
  const from = Math.floor((Date.now() - 71 * 3_600_000) / step) * step;
  const to = (Math.floor(Date.now() / step) + 1) * step;
  const range = `from=${new Date(from).toISOString()}&to=${new Date(to).toISOString()}`;
  const series = await get(`/api/v1/analytics/timeseries?metric=receipts&interval=${interval}&${range}`);
  const wanted = countBy(verified, (r) => Math.floor(Date.parse(r.timestamp) / step) * step);
  check(`${interval}s: number of points`, series.points.length, (to - from) / step);
  for (const point of series.points) check(`${interval} ${point.start}`, point.value, wanted[Date.parse(point.start)] ?? 0);
  check(`${interval}s: sum`, series.points.reduce((sum, p) => sum + p.value, 0), verified.length);
  const clients = await get(`/api/v1/analytics/timeseries?metric=clients&interval=${interval}&${range}`);
  const seen = (p) => unique(verified.filter((r) => Math.floor(Date.parse(r.timestamp) / step) * step === Date.parse(p.start)).map((r) => r.clientId));
  for (const point of clients.points) check(`clients in ${interval} ${point.start}`, point.value, seen(point));
  if (interval === 'hour') chart(series.points);
}

function chart(points) {
  const BARS = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
  const most = Math.max(1, ...points.map((point) => point.value));
  console.log(`\n${paint(1, 'Receipts an hour')}${paint(2, `   at most ${most}`)}`);
  for (let level = 3; level >= 0; level--) {
    const line = points.map(({ value }) => BARS[Math.max(0, Math.min(8, Math.ceil((value / most) * 32) - level * 8))]).join('');
    console.log(`  ${paint(36, line)}`);
  }
  const [first, last] = [points[0].start.slice(0, 16), points.at(-1).start.slice(0, 16)];
  console.log(`  ${paint(2, first + last.padStart(points.length - first.length))}`);
}

const refusals = await get('/api/v1/analytics/refusals?limit=100');
console.log(`\n${paint(1, 'Refused by the verifier')}${paint(2, '   acknowledged, then found wrong')}`);
for (const [reason, count] of Object.entries(refusals.byReason)) {
  row(reason, count, refusals.newest.find((refused) => refused.reason === reason)?.detail);
}
check('refusals', refusals.byReason, countBy(rejected, (r) => r.reason));
check('totalRefused', refusals.totalRefused, rejected.length);

console.log(`\n${paint(1, 'Refused by the gateway')}${paint(2, '   at once, with a place')}`);
for (const request of refusedAtOnce) {
  const { status, answer } = answers.get(request.file);
  const first = answer.errors?.[0] ?? answer;
  console.log(`  ${String(status)} ${String(first.code).padEnd(26)} ${(first.pointer || '').padEnd(24)} ${paint(2, request.name)}`);
}

// ---- Every receipt's own status, every entry, every client ------------------------------------------------------

for (const [receiptId, group] of Object.entries(Object.groupBy?.(ours, (r) => r.receiptId) ?? groupBy(ours, (r) => r.receiptId))) {
  const status = await get(`/api/v1/receipts/${receiptId}`);
  const valid = group.filter((r) => r.outcome !== 'rejected');
  check(`${receiptId}: status`, status.status, valid.length ? 'verified' : 'rejected');
  check(`${receiptId}: occurrences`, status.occurrences, valid.length);
  check(`${receiptId}: duplicates`, status.duplicates, group.filter((r) => r.outcome === 'duplicate').length);
  check(`${receiptId}: conflict`, status.conflict, unique(valid.map((r) => r.payloadHash)) > 1);
  check(`${receiptId}: payload hashes`, status.receipts.map((r) => r.payloadHash).sort(), [...new Set(valid.map((r) => `sha256:${r.payloadHash}`))].sort());
  check(`${receiptId}: reasons`, status.rejections.map((r) => r.reason).sort(), group.filter((r) => r.reason).map((r) => r.reason).sort());
}
for (const foreign of all.filter((r) => r.publisher !== publisher)) {
  check(`${foreign.receiptId}, another publisher's`, (await get(`/api/v1/receipts/${foreign.receiptId}`)).status, 'unknown');
}
for (const entryId of new Set(verified.map((r) => r.entryId))) {
  const content = await get(`/api/v1/analytics/content/${entryId}`);
  const mine = verified.filter((r) => r.entryId === entryId);
  check(`content ${entryId}`, [content.totalReceipts, content.uniqueClients], [mine.length, unique(mine.map((r) => r.clientId))]);
}
for (const clientId of new Set(verified.map((r) => r.clientId))) {
  const client = await get(`/api/v1/analytics/clients/${clientId}`);
  const mine = verified.filter((r) => r.clientId === clientId);
  check(`client ${clientId}`, [client.totalReceipts, client.uniqueContent], [mine.length, unique(mine.map((r) => r.entryId))]);
}

function groupBy(list, of) {
  const groups = {};
  for (const item of list) (groups[of(item)] ??= []).push(item);
  return groups;
}

// ---- The books --------------------------------------------------------------------------------------------------

console.log(`\n${paint(1, 'Audit')}`);
const shown = spawnSync(bin, ['audit', '--data', data], { encoding: 'utf8', env: { ...process.env, ...(colour && { CLICOLOR_FORCE: '1' }) } });
process.stdout.write(shown.stdout.replace(/^/gm, '  ').trimEnd() + shown.stderr + '\n');
check('audit: exit code', shown.status, 0);
const audit = JSON.parse(spawnSync(bin, ['audit', '--json', '--data', data], { encoding: 'utf8' }).stdout);
const outcomes = countBy(all, (r) => r.outcome);
check('audit: receipts in', audit.totals.receiptsIn, all.length);
check('audit: accepted', audit.totals.accepted, outcomes.verified + outcomes.duplicate);
check('audit: rejected', audit.totals.rejected, outcomes.rejected);
check('audit: differences', audit.findings, []);

console.log('');
if (faults.length > 0) {
  console.error(paint('1;31', `${faults.length} of ${checked} numbers are off:`));
  for (const fault of faults.slice(0, 40)) console.error(`  ${fault}`);
  process.exit(1);
}
console.log(paint('1;32', `✓ all ${checked} numbers are what was sent: ${all.length} receipts in ${requests.length} requests, `
  + `${outcomes.verified} verified, ${outcomes.duplicate} duplicates, ${outcomes.rejected} rejected, ${refusedAtOnce.length} refused at once`));
