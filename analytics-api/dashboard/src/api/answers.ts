// stand-in until openapi.json
export interface Complete {
  completeThrough: string;
  incomplete?: boolean;
}
export interface PurposeCounts {
  training: number;
  inference: number;
  research: number;
}
export interface ContentCount {
  entryId: string;
  title: string;
  url: string;
  receiptCount: number;
  unknownEntry?: boolean;
}
export interface ClientCount {
  clientId: string;
  name: string;
  organization: string;
  receiptCount: number;
}
export interface ModelCount {
  modelId: string | null;
  receiptCount: number;
  uniqueClients: number;
}
export interface Previous {
  from: string;
  to: string;
  totalReceipts: number;
  uniqueClients: number;
  usageByPurpose: PurposeCounts;
}
export interface Dashboard extends Complete {
  totalReceipts: number;
  uniqueClients: number;
  topContent: ContentCount[];
  usageByPurpose: PurposeCounts;
  from: string | null;
  to: string | null;
  previous?: Previous;
}
export interface Point {
  start: string;
  local: string;
  value: number;
}
export interface Timeseries extends Complete {
  metric: string;
  interval: string;
  tz: string;
  from: string;
  to: string;
  points?: Point[];
  series?: { key: string; points: Point[] }[];
}
export interface Contents extends Complete {
  totalContent: number;
  content: (ContentCount & { uniqueClients: number; lastSeen: string })[];
}
export interface Clients extends Complete {
  totalClients: number;
  clients: (ClientCount & { lastSeen: string })[];
}
export interface Models extends Complete {
  totalModels: number;
  models: ModelCount[];
}
export interface Receipts extends Complete {
  receipts: LiveReceipt[];
}
export interface Refused {
  receiptId: string | null;
  reason: string;
  detail: string;
  receivedAt: string;
  publisher: string;
  clientId: string | null;
  requestId: string;
}
export interface Refusals extends Complete {
  totalRefused: number;
  byReason: Record<string, number>;
  newest: Refused[];
}
export interface Entry extends Complete {
  entryId: string;
  url: string;
  title: string;
  unknownEntry?: boolean;
  urls: string[];
  totalReceipts: number;
  uniqueClients: number;
  usageByPurpose: PurposeCounts;
  topClients: ClientCount[];
  firstSeen: string | null;
  lastSeen: string | null;
}
export interface Client extends Complete {
  clientId: string;
  name: string;
  organization: string;
  versions: string[];
  totalReceipts: number;
  uniqueContent: number;
  usageByPurpose: PurposeCounts;
  topContent: ContentCount[];
  firstSeen: string | null;
  lastSeen: string | null;
}
export interface LiveTotals extends Complete {
  totalReceipts: number;
  uniqueClients: number;
  usageByPurpose: PurposeCounts;
}
export interface LiveReceipt {
  receiptId: string;
  timestamp: string;
  receivedAt: string;
  entryId: string;
  url: string;
  title: string;
  clientId: string | null;
  clientName: string | null;
  purpose: string;
  payloadHash: string;
}
