// A publisher's weeks as they might be: the same every time, seen from any day.

import { createHash } from 'node:crypto';
import { Signer } from '../../../../demo/signer.mjs';
import { PUBLISHER, type Service, type Use } from './service';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

export interface Article {
  entryId: string;
  url: string;
  title: string;
}

const TITLES = [
  'How the harbour got its tram back',
  'Water, grain, debt: a winter in the delta',
  'The quiet return of the night train',
  'What a city learns from one hot week',
  'Inside the vote nobody counted on',
  'A field guide to honest numbers',
  'The last cinema on Market Street',
  'Rebuilding a bridge in ninety days',
  'Who owns the seeds?',
  'Seven maps of one river',
  'The teacher shortage, school by school',
  'Letters from the lighthouse',
  'Why bread costs what it costs',
  'A year without the ferry',
];

const MODELS = ['atlas-2', 'atlas-2-mini', 'heron-large', 'quill-7b', 'lumen-3'];
const CLIENTS: [name: string, organization: string, weight: number][] = [
  ['AtlasBot', 'Atlas Research', 30],
  ['HeronReader', 'Heron Labs', 21],
  ['Quill Crawler', 'Quill', 14],
  ['Lumen Answers', 'Lumen', 12],
  ['OpenShelf', 'University of Aldermoor', 8],
  ['Kestrel Index', 'Kestrel Systems', 6],
  ['Marginalia', 'Marginalia Search', 5],
  ['Polyglot', 'Institute for Language Study', 4],
];

/** An entry whose title wants to be more than text, and to be a formula in a spreadsheet. */
export const HOSTILE: Article = {
  entryId: uuid('hostile'),
  url: `https://${PUBLISHER}/hostile`,
  title: '=HYPERLINK("https://evil.example")<img src=x onerror="alert(1)"><script>alert(2)</script>',
};

export const articles = (): Article[] =>
  TITLES.map((title) => {
    const slug = title
      .toLowerCase()
      .replaceAll(/[^a-z0-9]+/g, '-')
      .replaceAll(/^-|-$/g, '');
    return { entryId: uuid(title), url: `https://${PUBLISHER}/${slug}`, title };
  });

export const clients = (): { signer: Signer; weight: number }[] =>
  CLIENTS.map(([name, organization, weight]) => {
    const signer = new Signer('Ed25519', { name });
    Object.assign(signer.client, { id: uuid(name), organization });
    return { signer, weight };
  });

/**
 * `receipts` of them over the last `days`, more by day than by night, fewer at weekends, growing.
 */
export function uses(receipts: number, days: number, nowMs: number): { client: number; use: Use }[] {
  const random = numbers(7);
  const all = articles();
  const clientOf = weighted(CLIENTS.map(([, , weight]) => weight));
  const articleOf = weighted(all.map((_, at) => 1 / (at + 1.5)));
  const made: { client: number; use: Use }[] = [];
  while (made.length < receipts) {
    const timestampMs = Math.floor(nowMs - 60_000 - random() * days * DAY_MS);
    if (random() > likelihood(timestampMs, nowMs, days)) continue;
    const client = clientOf(random());
    const article = all[articleOf(random())] as Article;
    const kind = random();
    // One client trains by the day, others answer questions; the university studies.
    const purpose =
      CLIENTS[client]?.[0] === 'OpenShelf'
        ? 'research'
        : kind < 0.62
          ? 'inference'
          : kind < 0.9
            ? 'training'
            : 'research';
    const modelId = random() < 0.9 ? MODELS[client % MODELS.length] : undefined;
    made.push({
      client,
      use: { entryId: article.entryId, url: article.url, timestampMs, purpose, ...(modelId && { modelId }) },
    });
  }
  return made;
}

/** Operators of the first clients; the others' receipts are unproven. */
const OPERATORS = ['atlas.example', 'heron-labs.example', 'quill.example'];

/** Lists the articles, registers the operators, and sends the uses; returns their senders. */
export async function fill(service: Service, key: string, receipts: number, days: number): Promise<Signer[]> {
  for (const article of articles()) await service.list(article, key);
  const senders = clients();
  for (const [at, { signer }] of senders.entries()) {
    const domain = OPERATORS[at];
    if (domain) await service.operator(domain, [signer]);
  }
  const made = uses(receipts, days, Date.now());
  for (const [at, { signer }] of senders.entries()) {
    const own = made.filter(({ client }) => client === at).map(({ use }) => use);
    await service.send(signer, own);
  }
  await service.counted(receipts, key);
  return senders.map(({ signer }) => signer);
}

function likelihood(ms: number, nowMs: number, days: number): number {
  const at = new Date(ms);
  const hour = at.getUTCHours() + at.getUTCMinutes() / 60;
  const byHour = 0.28 + 0.72 * Math.max(0, Math.sin(((hour - 5) / 19) * Math.PI)) ** 1.4;
  const byDay = [0.55, 0.95, 1, 0.98, 0.94, 0.86, 0.6][at.getUTCDay()] ?? 1;
  const growth = 1 - 0.45 * ((nowMs - ms) / (days * DAY_MS));
  // A story that everybody read, for a day and a half.
  const since = (nowMs - ms) / DAY_MS;
  const story = since > 3.2 && since < 4.7 ? 1 : 0.72;
  return byHour * byDay * growth * story;
}

function weighted(weights: number[]): (random: number) => number {
  const all = weights.reduce((sum, weight) => sum + weight, 0);
  return (random) => {
    let left = random * all;
    const found = weights.findIndex((weight) => {
      left -= weight;
      return left < 0;
    });
    return found < 0 ? weights.length - 1 : found;
  };
}

/** Mulberry32: the same numbers every time. */
export function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

export function uuid(name: string): string {
  const hex = createHash('sha256').update(name).digest('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
