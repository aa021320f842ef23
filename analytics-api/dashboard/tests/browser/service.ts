// `receipts up` for a test: on free ports and a folder of its own, gone with the test, fed with
// receipts that Node signed.

import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Signer } from '../../../../demo/signer.mjs';
import type { Purpose } from '../../src/format';
import { withDist } from './dist';

export const PUBLISHER = 'news.example';
const BIN = process.env.RECEIPTS_DEMO_BIN ?? resolve(import.meta.dirname, '../../../../target/debug/receipts');
const WAIT_MS_MAX = 60_000;
const BATCH_RECEIPTS = 500;

export interface Addresses {
  gateway: string;
  analytics: string;
  publisher: string;
}

export interface Use {
  entryId: string;
  url: string;
  timestampMs: number;
  purpose: Purpose;
  modelId?: string;
  /** The domain that the receipt names, if it isn't the usual publisher's. */
  publisher?: string;
}

export interface Sent {
  receiptId: string;
}

/** Where a running one is, and what to do with it. */
export class Service {
  readonly data: string;
  readonly addresses: Addresses;

  constructor(data: string, addresses: Addresses) {
    this.data = data;
    this.addresses = addresses;
  }

  /** A key of a domain that nobody has verified yet. */
  keyOf(domain: string): string {
    const args = ['keys', 'create', '--data', this.data, '--domain', domain, '--json'];
    return (JSON.parse(execFileSync(BIN, args, { encoding: 'utf8' })) as { apiKey: string }).apiKey;
  }

  key(...options: string[]): string {
    const args = ['keys', 'create', '--data', this.data, '--domain', PUBLISHER, '--json', ...options];
    args.push(...this.owner());
    return (JSON.parse(execFileSync(BIN, args, { encoding: 'utf8' })) as { apiKey: string }).apiKey;
  }

  /**
   * Makes `domain` an operator with these signers: returns once their receipts are proven. The
   * receipts that show it are of the operator's own domain.
   */
  async operator(domain: string, signers: Signer[]): Promise<void> {
    const key = this.keyOf(domain);
    const operators = (...args: string[]) => execFileSync(BIN, ['operators', ...args, '--data', this.data]);
    operators('create', domain);
    for (const signer of signers) {
      const pem = join(this.data, `${signer.client.id}.pub`);
      writeFileSync(pem, signer.publicPem);
      operators('add-key', domain, '--key', pem);
    }
    const until = Date.now() + WAIT_MS_MAX;
    for (;;) {
      const use = { entryId: randomUUID(), url: `https://${domain}/`, purpose: 'research', publisher: domain } as const;
      for (const signer of signers) await this.send(signer, [{ ...use, timestampMs: Date.now() - 100 }]);
      await sleep(200);
      const asked = await this.ask('/api/v1/analytics/clients?trust=proven&beforeVerification=include', key);
      const answer = (await asked.json()) as { totalClients: number };
      if (answer.totalClients >= signers.length) return;
      if (Date.now() > until) throw new Error(`${answer.totalClients} of ${signers.length} keys are ${domain}'s`);
    }
  }

  /** Names the publisher's account, which exists once it has a key. */
  private owner(): string[] {
    const listed = execFileSync(BIN, ['accounts', 'list', '--data', this.data, '--json'], { encoding: 'utf8' });
    const accounts = JSON.parse(listed) as { accountId: string; name: string }[];
    const owner = accounts.find((account) => account.name === PUBLISHER);
    return owner ? ['--account', owner.accountId] : [];
  }

  /** A link that signs a person in to the publisher's account, or makes the first account. */
  loginLink(role = 'reader'): string {
    const args = ['login-link', '--data', this.data, ...this.owner(), '--role', role];
    const link = new URL(execFileSync(BIN, args, { encoding: 'utf8' }).trim());
    return this.addresses.publisher + link.pathname;
  }

  /** Moves a domain's account to another tier; it exists once it has a key. */
  setTier(tier: string, domain = PUBLISHER): void {
    execFileSync(BIN, ['accounts', 'set-tier', '--data', this.data, domain, tier]);
  }

  /** Lists an entry under the publisher's own title. */
  async list(entry: { entryId: string; url: string; title: string }, key: string): Promise<void> {
    await ok(`${this.addresses.publisher}/api/v1/publisher/entries`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(entry),
    });
  }

  /**
   * Sends receipts in signed batches; they are durable when this returns, and counted soon after.
   */
  async send(client: Signer, uses: Use[]): Promise<Sent[]> {
    const sent: Sent[] = [];
    for (let at = 0; at < uses.length; at += BATCH_RECEIPTS) {
      const receipts = uses.slice(at, at + BATCH_RECEIPTS).map((use) => client.signed(receipt(client, use)));
      const batch = client.signed({ version: '1.0.0', batchId: randomUUID(), receipts });
      await this.post('/api/v1/receipts/batch', client, JSON.stringify(batch));
      sent.push(...(receipts as unknown as Sent[]));
    }
    return sent;
  }

  /** Sends one whose signature is another's: acknowledged, then refused. */
  async sendForged(client: Signer, use: Use): Promise<void> {
    const forged = client.signed({ ...receipt(client, use), usage: { purpose: use.purpose, context: 'before' } });
    const body = JSON.stringify({ ...forged, usage: { purpose: use.purpose, context: 'after' } });
    await this.post('/api/v1/receipts', client, body);
  }

  private async post(path: string, client: Signer, body: string): Promise<void> {
    await ok(`${this.addresses.gateway}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-service-signature': client.sign(Buffer.from(body)) },
      body,
    });
  }

  /** Asks the API as a program would. */
  async ask(path: string, key: string, accept = 'application/json'): Promise<Response> {
    return ok(`${this.addresses.analytics}${path}`, { headers: { authorization: `Bearer ${key}`, accept } });
  }

  /** Waits until so many receipts are counted, those from before the domain's verification too. */
  async counted(receipts: number, key: string): Promise<void> {
    const until = Date.now() + WAIT_MS_MAX;
    for (;;) {
      const asked = await this.ask('/api/v1/analytics/dashboard?beforeVerification=include', key);
      const answer = (await asked.json()) as { totalReceipts: number };
      if (answer.totalReceipts >= receipts) return;
      if (Date.now() > until) throw new Error(`${answer.totalReceipts} of ${receipts} receipts are counted`);
      await sleep(100);
    }
  }
}

/**
 * Starts one with ports of their own for `ports`, the first at `at`, if it must be known before;
 * `stop` ends it and removes its folder.
 */
export async function start(
  settings: Record<string, string> = {},
  ports = ['gateway', 'analytics', 'publisher', 'metrics'],
  at = 0,
): Promise<{ service: Service; stop: () => Promise<void> }> {
  const data = mkdtempSync(join(tmpdir(), 'receipts-page-'));
  const listen = ports.flatMap((name, index) => [`--${name}-listen`, `127.0.0.1:${index === 0 ? at : 0}`]);
  const child = spawn(BIN, ['up', '--data', data, ...listen], {
    // What is set for others must not change what is tested.
    env: {
      ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('RECEIPTS_'))),
      ...settings,
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let log = '';
  child.stderr?.on('data', (text: Buffer) => {
    log = (log + text.toString()).slice(-4000);
  });
  const kill = () => child.kill('SIGKILL');
  process.once('exit', kill);
  const stop = async () => {
    await ended(child);
    process.off('exit', kill);
    rmSync(data, { recursive: true, force: true });
  };
  try {
    const addresses = await listening(child, join(data, 'addresses.json'));
    if (process.env.PAGE_FROM_DIST) {
      const { address, close } = await withDist(addresses.analytics);
      child.once('exit', close);
      // One address stays one.
      if (addresses.publisher === addresses.analytics) addresses.publisher = address;
      addresses.analytics = address;
    }
    return { service: new Service(data, addresses), stop };
  } catch (error) {
    await stop();
    throw new Error(`receipts up did not start: ${error}\n${log}`);
  }
}

async function listening(child: ChildProcess, file: string): Promise<Addresses> {
  const until = Date.now() + WAIT_MS_MAX;
  while (Date.now() < until) {
    if (child.exitCode !== null) throw new Error(`it ended with ${child.exitCode}`);
    if (existsSync(file)) {
      const addresses = JSON.parse(readFileSync(file, 'utf8')) as Addresses;
      const ready = await Promise.all([addresses.gateway, addresses.analytics].map((at) => fetch(`${at}/readyz`)));
      if (ready.every((answer) => answer.ok)) return addresses;
    }
    await sleep(50);
  }
  throw new Error('not ready in time');
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const over = new Promise((done) => child.once('exit', done));
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), 20_000);
  await over;
  clearTimeout(timer);
}

function receipt(client: Signer, use: Use) {
  const { entryId, url, timestampMs, purpose, modelId, publisher = PUBLISHER } = use;
  return {
    version: '1.0.0',
    receiptId: randomUUID(),
    timestamp: new Date(timestampMs).toISOString(),
    content: {
      entryId,
      url,
      contentHash: `sha256:${createHash('sha256').update(url).digest('hex')}`,
      publisher,
    },
    client: client.client,
    usage: { purpose, context: `page ${purpose}`, ...(modelId && { modelId }) },
  };
}

async function ok(url: string, request: RequestInit): Promise<Response> {
  const response = await fetch(url, request);
  if (!response.ok) throw new Error(`${request.method ?? 'GET'} ${url}: ${response.status} ${await response.text()}`);
  return response;
}
