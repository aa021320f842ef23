// Answers of the publisher API, as far as the console reads them, and names for those of analytics.

import type { components } from '../api/schema';
import type { Person } from '../session';

export type Method = 'dns' | 'https' | 'meta';

export interface DomainRecord {
  name: string;
  type: string;
  value: string;
  ttl?: number;
}

export interface IssuedToken {
  record: DomainRecord;
}

export interface DomainStatus {
  domain: string;
  status: 'verified' | 'unverified';
  reason?: 'pending' | 'expired' | 'revoked' | 'suspended';
  method?: Method | 'local';
  verifiedAt?: string;
  expiresAt?: string;
  contested: boolean;
  includeSubdomains?: boolean;
  openTokens: { method: Method; expiresAt: string }[];
}

export interface Domains {
  domains: DomainStatus[];
  expiryMails: boolean;
}

export interface Attempt {
  method: Method;
  expected: DomainRecord;
  outcome: string;
  found: string[];
  advice: string;
}

export interface DomainCheck {
  verified: boolean;
  domain: string;
  detail?: string;
  attempts?: Attempt[];
}

export type Scope = 'read' | 'write' | 'erase';

export interface Key {
  keyId: string;
  name: string;
  scope: Scope[];
  domains?: string[];
  status: 'active' | 'expired' | 'revoked';
  createdAt: string;
  expiresAt: string;
  revokedAt: string | null;
  replacedBy: string | null;
  createdBy: string;
  lastUsedAt: string | null;
}

export interface Keys {
  keys: Key[];
  nextCursor: string | null;
}

/** A key just made; its secret comes only here. */
export interface NewKey {
  apiKey: string;
  keyId: string;
}

export interface Entry {
  entryId: string;
  url: string;
  title: string;
  authors: string[];
  domain: string;
  createdAt: string;
}

export interface Entries {
  entries: Entry[];
  nextCursor: string | null;
}

/** Domains of the companies that the account trusts; none: every company. */
export interface TrustedOperators {
  operators: string[];
}

export interface Bulk {
  created: number;
  unchanged: number;
  refused: number;
  lines: { line: number; status: 'created' | 'unchanged' | 'refused'; detail?: string }[];
}

export interface Erasure {
  erasureId: string;
  state: 'scheduled' | 'cancelled' | 'running' | 'done';
  /** What goes, in few words. */
  summary: string;
  requestedAt: string;
  executeAt: string;
  requestedBy: string;
  erased: Record<string, number>;
  problem: string | null;
  finishedAt: string | null;
}

export interface Erasures {
  erasures: Erasure[];
  nextCursor: string | null;
}

export interface Trail {
  entries: { id: string; at: string; actor: string; action: string; subject: string; detail: string }[];
  nextCursor: string | null;
}

export interface Member {
  userId: string;
  email: string | null;
  name: string | null;
  role: Person['role'];
  isLoginLink: boolean;
  isOwn: boolean;
  since: string;
}

export interface Members {
  members: Member[];
}

export interface Invitation {
  invitationId: string;
  role: Person['role'];
  email: string | null;
  expiresAt: string;
}

export interface Invitations {
  invitations: Invitation[];
}

/** An invitation just made; its link comes only here, and not if a mail brings it. */
export interface NewInvitation extends Invitation {
  link: string | null;
}

/** Mails about numbers; null is off. */
export interface ReportChoice {
  weekly: boolean;
  monthly: boolean;
  newOperator: boolean;
  unprovenPercent: number | null;
  silentHours: number | null;
}

export interface ChosenReports extends ReportChoice {
  email: string | null;
  mailConfigured: boolean;
}

type Schemas = components['schemas'];

export type Receipts = Schemas['Complete_ReceiptList'];
export type Evidence = Schemas['Complete_ReceiptEvidence'];
export type Rejected = Schemas['Complete_Refusals'];
export type Operators = Schemas['Complete_OperatorList'];
export type Services = Schemas['Complete_TopClientList'];
