// What all browser tests share: one `receipts up` with a publisher's weeks in it.

import type { TestProject } from 'vitest/node';
import { clients, fill, HOSTILE } from './sample';
import { type Addresses, start } from './service';

export const RECEIPTS = 1500;

declare module 'vitest' {
  interface ProvidedContext {
    data: string;
    addresses: Addresses;
    key: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { service, stop } = await start();
  try {
    const key = service.key('--scope', 'read,write');
    service.setTier('enterprise');
    await service.list(HOSTILE, key);
    await fill(service, key, RECEIPTS, 9);
    const [first] = clients();
    if (!first) throw new Error('there are clients');
    const use = { ...HOSTILE, timestampMs: Date.now() - 5_000, purpose: 'training' as const };
    await service.send(
      first.signer,
      Array.from({ length: 400 }, () => use),
    );
    await service.sendForged(first.signer, use);
    await service.counted(RECEIPTS + 400, key);
    project.provide('data', service.data);
    project.provide('addresses', service.addresses);
    project.provide('key', key);
  } catch (error) {
    await stop();
    throw error;
  }
  return stop;
}
