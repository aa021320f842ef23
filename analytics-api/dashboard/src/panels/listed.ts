// The four lists that have all rows: of what they are, and what the API says to each.

import type { ClientCount, ContentCount, ModelUsage, OperatorUsage, Signer } from '../api/answers';
import { address, clients, contents, type Filter, models, operators } from '../api/questions';
import { dateTime } from '../format';
import { type Detail, type List, linkTo, type SORTS } from '../location';
import type { Ranked } from './Ranking';
import { signerText } from './Trust';

/** Rows that the API gives at once. */
export const PAGE_ROWS_MAX = 100;

/** A column's name, and the order that its heading offers, without the sign of its direction. */
export interface Heading {
  text: string;
  sort?: 'receiptCount' | 'lastSeen' | 'name' | 'uniqueClients' | 'modelId' | 'operator';
}

export interface ListAnswer {
  rows: Ranked[];
  total: number;
  next: string | null;
}

type Sort<L extends List> = (typeof SORTS)[L][number];

export type ListQuery = Filter & { limit: number; sort?: string; q?: string; cursor?: string };

export interface Listed {
  title: string;
  /** One of its rows, and several. */
  nouns: readonly [string, string];
  /** One sentence about them. */
  help: string;
  path: string;
  /** An order that receipts which arrive don't change: pages in it have each row once. */
  steadySort: string;
  name: Heading;
  others: Heading[];
  ask: (query: ListQuery, tz: string, signal: AbortSignal) => Promise<ListAnswer>;
}

const LAST_USED: Heading = { text: 'Last used', sort: 'lastSeen' };
const SERVICES: Heading = { text: 'AI services', sort: 'uniqueClients' };

export const LISTED: Record<List, Listed> = {
  content: {
    title: 'Content',
    nouns: ['title', 'titles'],
    help: 'Articles and other pages of yours that AI services used.',
    path: '/content',
    steadySort: 'entryId',
    name: { text: 'Title' },
    others: [{ text: 'AI services' }, LAST_USED],
    ask: async (query, tz, signal) => {
      const answer = await contents({ ...query, sort: query.sort as Sort<'content'> }, signal);
      const row = (entry: (typeof answer.content)[number]): Ranked => ({
        ...rankedEntry(entry),
        others: [entry.uniqueClients, seen(entry.lastSeen, tz)],
      });
      return { rows: answer.content.map(row), total: answer.totalContent, next: answer.nextCursor };
    },
  },
  services: {
    title: 'AI services',
    nouns: ['AI service', 'AI services'],
    help: 'Programs that used your content, each by its key.',
    path: '/clients',
    steadySort: 'clientId',
    name: { text: 'AI service', sort: 'name' },
    others: [LAST_USED],
    ask: async (query, tz, signal) => {
      const answer = await clients({ ...query, sort: query.sort as Sort<'services'> }, signal);
      const row = (client: (typeof answer.clients)[number]): Ranked => ({
        ...rankedClient(client),
        others: [seen(client.lastSeen, tz)],
      });
      return { rows: answer.clients.map(row), total: answer.totalClients, next: answer.nextCursor };
    },
  },
  models: {
    title: 'Models',
    nouns: ['model', 'models'],
    help: 'AI models, as the AI services name them.',
    path: '/models',
    steadySort: 'modelId',
    name: { text: 'Model', sort: 'modelId' },
    others: [SERVICES],
    ask: async (query, _, signal) => {
      const answer = await models({ ...query, sort: query.sort as Sort<'models'> }, signal);
      return { rows: answer.models.map(rankedModel), total: answer.totalModels, next: answer.nextCursor };
    },
  },
  operators: {
    title: 'Operators',
    nouns: ['operator', 'operators'],
    help: 'Companies that have proven who they are, by their domains.',
    path: '/operators',
    steadySort: 'operator',
    name: { text: 'Operator', sort: 'operator' },
    others: [SERVICES],
    ask: async (query, _, signal) => {
      const answer = await operators({ ...query, sort: query.sort as Sort<'operators'> }, signal);
      return { rows: answer.operators.map(rankedOperator), total: answer.totalOperators, next: answer.nextCursor };
    },
  },
};

const seen = (at: string, tz: string): string => dateTime(Date.parse(at), tz);

/** The API's filter by a title or a service. */
export function filterBy(of: Detail | null): Filter {
  if (of === null) return {};
  if (of.name === 'content') return { entryId: of.id };
  return { clientId: of.id, ...(of.fingerprint !== null && { keyFingerprint: of.fingerprint }) };
}

/**
 * The whole list as CSV. Of several pages, one by a number could lose a row that moves while they
 * are read.
 */
export function csvOf({ path, steadySort }: Listed, query: Filter, total: number, sort = '-receiptCount'): string {
  return address(path, { ...query, limit: PAGE_ROWS_MAX, sort: total > PAGE_ROWS_MAX ? steadySort : sort });
}

export const rankedEntry = (entry: ContentCount): Ranked => ({
  key: entry.entryId,
  name: entry.title || entry.url || entry.entryId,
  count: entry.receiptCount,
  proven: entry.byTrust.proven,
  href: linkTo({ view: { name: 'content', id: entry.entryId } }),
  ...(entry.title !== entry.url && entry.url && { note: bare(entry.url) }),
});

export const rankedClient = (client: ClientCount): Ranked => ({
  key: `${client.clientId} ${client.keyFingerprint}`,
  name: client.name || client.clientId,
  trust: client.trust,
  note: [signerText(client), client.organization].filter(Boolean).join(' · '),
  count: client.receiptCount,
  proven: client.byTrust.proven,
  href: linkToService(client.clientId, client),
});

const rankedModel = (model: ModelUsage): Ranked => ({
  key: model.modelId ?? '',
  name: model.modelId ?? 'No model named',
  count: model.receiptCount,
  proven: model.byTrust.proven,
  others: [model.uniqueClients],
  ...(model.modelId && { href: linkTo({ view: { name: 'overview' }, modelId: model.modelId }), narrows: true }),
});

const rankedOperator = (row: OperatorUsage): Ranked => ({
  key: row.operator ?? '',
  name: row.operator ?? 'No operator',
  trust: row.trust,
  count: row.receiptCount,
  proven: row.byTrust.proven,
  others: [row.uniqueClients],
  ...(row.operator && { href: linkTo({ view: { name: 'overview' }, operator: row.operator }), narrows: true }),
});

/** To the service alone: others may use its ID with keys of their own. */
export const linkToService = (id: string, { keyFingerprint }: Signer): string =>
  linkTo({ view: { name: 'service', id, fingerprint: keyFingerprint } });

/** A URL without its scheme, for reading. */
export const bare = (url: string): string => url.replace(/^https?:\/\//, '');
