// Answers of the publisher API, as far as the console reads them.

export interface Information {
  email: string | null;
  name: string | null;
  account: { id: string; tier: string; deletion: { erasedAfter: string } | null };
}

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
