// A receipt as an AI service sends it, signed by a key made here, that the gateway only explains:
// it is neither stored nor counted.

import { Problem, problemOf } from '../api/problem';

const EXPLAIN = '/api/v1/receipts/explain';

export interface Explained {
  outcome: 'verified' | 'rejected';
  checks: { check: string; result: 'passed' | 'failed' | 'skipped'; detail: string }[];
}

export interface Used {
  entryId: string;
  url: string;
  domain: string;
}

export async function tryReceipt(used: Used): Promise<Explained> {
  const body = await signed(used);
  const headers = { 'content-type': 'application/json' };
  let response: Response;
  try {
    response = await fetch(EXPLAIN, { method: 'POST', headers, body, credentials: 'omit', redirect: 'error' });
  } catch {
    throw new Problem(0, 'unreachable', '');
  }
  if (response.ok) return (await response.json()) as Explained;
  if (response.status === 404) {
    const detail =
      'In this deployment receipts arrive at another address, which this page can’t reach: ask whoever runs it.';
    throw new Problem(404, 'not_found', detail);
  }
  throw await problemOf(response);
}

async function signed({ entryId, url, domain }: Used): Promise<string> {
  const keys = (await crypto.subtle.generateKey('Ed25519', true, ['sign', 'verify'])) as CryptoKeyPair;
  const publicKey = base64(await crypto.subtle.exportKey('spki', keys.publicKey));
  const receipt = {
    version: '1.0.0',
    receiptId: crypto.randomUUID(),
    timestamp: new Date().toISOString(),
    content: { entryId, url, contentHash: `sha256:${await sha256(url)}`, publisher: domain },
    client: {
      id: crypto.randomUUID(),
      name: 'Test from the first steps',
      version: '1.0.0',
      organization: domain,
      publicKey: `-----BEGIN PUBLIC KEY-----\n${publicKey}\n-----END PUBLIC KEY-----\n`,
    },
    usage: { purpose: 'research', context: 'a test receipt' },
  };
  const signature = base64(await crypto.subtle.sign('Ed25519', keys.privateKey, bytes(canonical(receipt))));
  return JSON.stringify({ ...receipt, signature, signatureAlgorithm: 'Ed25519' });
}

/** The canonical form (RFC 8785) of objects of texts. */
function canonical(value: object | string): string {
  if (typeof value === 'string') return JSON.stringify(value);
  const members = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`).join(',')}}`;
}

const bytes = (text: string) => new TextEncoder().encode(text);

const base64 = (buffer: ArrayBuffer): string => btoa(String.fromCharCode(...new Uint8Array(buffer)));

async function sha256(text: string): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes(text)));
  return [...hash].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
