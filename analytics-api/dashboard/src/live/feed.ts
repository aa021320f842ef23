// The live stream: one connection while the page is in view, resumed where it broke off, with
// growing pauses.

import { signal } from '@preact/signals';
import type { LiveReceipt, LiveTotals } from '../api/answers';
import { asProblem, authorized, isAbort } from '../api/http';
import type { Problem } from '../api/problem';
import { receipts as newestReceipts } from '../api/questions';
import { asOf, refresh } from '../ask';
import { serverNow } from '../clock';
import { setLoad } from '../loads';
import { addDays, dayOf } from '../ranges';
import { heardWatermark } from '../watermark';
import { EventParser, type ServerEvent } from './events';
import { follower } from './follow';

export type Connection =
  | { state: 'connecting'; problem: null }
  | { state: 'open'; problem: null }
  | { state: 'waiting'; problem: Problem | null };

export const connection = signal<Connection>({ state: 'connecting', problem: null });
export const totals = signal<LiveTotals | null>(null);
/** Newest first. */
export const receipts = signal<readonly LiveReceipt[]>([]);
/** How many came since the connection was first made. */
export const arrived = signal(0);

const RECEIPTS_MAX = 60;
const SEED = 20;
const PAUSE_MS_MIN = 1_000;
const PAUSE_MS_MAX = 60_000;
/** The server sends a sign of life more often than this. */
const SILENCE_MS_MAX = 60_000;

/** Listens until stopped. */
export function listen(tz: string, domain: string | null): () => void {
  const controller = new AbortController();
  receipts.value = [];
  totals.value = null;
  arrived.value = 0;
  void fill(tz, domain, controller.signal);
  void keepListening(tz, domain, controller.signal);
  return () => {
    controller.abort();
    setLoad(STREAM, null);
  };
}

/** The stream among the page's loads. */
const STREAM = {};

/** What came before the stream began: the newest of today's and yesterday's. */
async function fill(tz: string, domain: string | null, stop: AbortSignal): Promise<void> {
  try {
    const from = addDays(dayOf(serverNow(), tz), -1);
    const found = await newestReceipts({ tz, from, limit: SEED, ...(domain && { domain }) }, stop);
    // The list is by time of access, the tape by arrival.
    show(
      found.receipts.sort((a, b) => b.receivedAt.localeCompare(a.receivedAt)),
      [],
    );
  } catch {
    // The tape begins empty then; the stream itself says whether something is wrong.
  }
}

/** Two payloads under one id are two receipts. */
export const idOf = (receipt: LiveReceipt): string => `${receipt.receiptId} ${receipt.payloadHash}`;

/** Newest first; what both the stream and the list have is shown once. */
function show(after: readonly LiveReceipt[], before: readonly LiveReceipt[]): void {
  const all = [...before, ...receipts.peek(), ...after];
  receipts.value = [...new Map(all.reverse().map((receipt) => [idOf(receipt), receipt])).values()]
    .reverse()
    .slice(0, RECEIPTS_MAX);
}

async function keepListening(tz: string, domain: string | null, stop: AbortSignal): Promise<void> {
  let lastId: string | null = null;
  let failures = 0;
  while (!stop.aborted) {
    connection.value = { state: 'connecting', problem: null };
    let problem: Problem | null = null;
    const parser = new EventParser();
    parser.lastId = lastId;
    try {
      await listenOnce(tz, domain, parser, stop, () => {
        failures = 0;
      });
    } catch (error) {
      if (stop.aborted) return;
      if (!isAbort(error)) problem = asProblem(error);
    }
    if (stop.aborted) return;
    if (problem?.isOutage) setLoad(STREAM, 'failed');
    // What can't be taken would come again: without it the page continues, and looks again.
    if (lastId !== null && parser.lastId === null) followLater(() => void fill(tz, domain, stop));
    lastId = parser.lastId;
    // What can't pass by itself isn't tried again: the key's right, or an address that isn't there.
    if (problem && !problem.passes) {
      connection.value = { state: 'waiting', problem };
      return;
    }
    connection.value = { state: 'waiting', problem };
    failures += 1;
    const pause = Math.min(PAUSE_MS_MAX, Math.max(parser.retryMs ?? 0, PAUSE_MS_MIN) * 2 ** (failures - 1));
    // Spread: a restarted server isn't met by everyone at once.
    await sleep(Math.max((problem?.retryAfterS ?? 0) * 1000, pause * (0.5 + Math.random() / 2)), stop);
  }
}

async function listenOnce(
  tz: string,
  domain: string | null,
  parser: EventParser,
  stop: AbortSignal,
  onOpen: () => void,
) {
  const query = new URLSearchParams({ tz });
  if (domain) query.set('domain', domain);
  const silence = new AbortController();
  let timer = setTimeout(() => silence.abort(), SILENCE_MS_MAX);
  const headers = new Headers({ accept: 'text/event-stream' });
  if (parser.lastId !== null) headers.set('last-event-id', parser.lastId);
  const signal = AbortSignal.any([stop, silence.signal]);
  try {
    const response = await authorized(
      new Request(`/api/v1/analytics/live?${query}`, { headers, signal, cache: 'no-store' }),
    );
    if (!response.body) return;
    connection.value = { state: 'open', problem: null };
    setLoad(STREAM, null);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      onOpen();
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), SILENCE_MS_MAX);
      for (const event of parser.push(value)) take(event, () => void fill(tz, domain, stop));
    }
  } finally {
    clearTimeout(timer);
  }
}

function take({ event, data }: ServerEvent, onReload: () => void): void {
  if (event === 'totals') {
    const received = JSON.parse(data) as LiveTotals;
    const before = totals.peek();
    totals.value = received;
    heardWatermark(received.completeThrough, received.incomplete ?? false);
    if (before && before.totalReceipts !== received.totalReceipts) followLater();
  } else if (event === 'receipts') {
    const { receipts: come } = JSON.parse(data) as { receipts: LiveReceipt[] };
    arrived.value += come.length;
    show([], come);
  } else if (event === 'reload') {
    // More came, or changed, than is listed one by one.
    followLater(onReload);
  }
}

/** Has the other panels look again. */
const followLater = follower(refresh, () => asOf.peek());

function sleep(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((done) => {
    const timer = setTimeout(done, ms);
    stop.addEventListener('abort', () => {
      clearTimeout(timer);
      done();
    });
  });
}
