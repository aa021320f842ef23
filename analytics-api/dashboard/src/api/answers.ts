// What the API answers, by the names this page uses; the shapes are those of its OpenAPI document
// (`npm run types`).

import type { components } from './schema';

type Schemas = components['schemas'];

export type Dashboard = Schemas['Complete_Dashboard'];
export type Timeseries = Schemas['Complete_Timeseries'];
export type Entry = Schemas['Complete_Entry'];
export type Client = Schemas['Complete_ClientActivity'];
export type Completeness = Schemas['Completeness'];
export type PurposeCounts = Schemas['PurposeCounts'];
export type ContentCount = Schemas['ContentCount'];
export type ClientCount = Schemas['ClientCount'];
export type Signer = Schemas['Signer'];
export type TotalsByTrust = Schemas['TotalsByTrust'];
export type ModelUsage = Schemas['ModelUsage'];
export type OperatorUsage = Schemas['OperatorUsage'];
export type LiveReceipt = Schemas['ListedReceipt'];

/** Of an event of the stream, which the document tells in words only. */
export type LiveTotals = Completeness &
  Pick<Dashboard, 'totalReceipts' | 'uniqueClients' | 'usageByPurpose' | 'byTrust'>;
