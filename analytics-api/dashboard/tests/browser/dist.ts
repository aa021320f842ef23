// The page as it lies in dist/, in front of a service: no build of the binary for each try.

import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join } from 'node:path';

const DIST = join(import.meta.dirname, '../../dist');
const TYPES: Record<string, string> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
};

/** An address with dist/ under the headers of the service's own page, and all else from it. */
export async function withDist(service: string): Promise<{ address: string; close: () => void }> {
  const policy = (await fetch(`${service}/dashboard`)).headers.get('content-security-policy') ?? '';
  const server = createServer((incoming, outgoing) => {
    const [path = ''] = (incoming.url ?? '').split('?');
    const file = join(DIST, path.replace(/^\/dashboard\/?/, '') || 'index.html');
    if (/^\/dashboard(\/assets\/[^/]+)?$/.test(path) && existsSync(file)) {
      outgoing.writeHead(200, { 'content-type': TYPES[extname(file)] ?? '', 'content-security-policy': policy });
      outgoing.end(readFileSync(file));
      return;
    }
    const { method, headers } = incoming;
    const onward = request(new URL(incoming.url ?? '', service), { method: method ?? 'GET', headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    });
    onward.on('error', () => outgoing.destroy());
    outgoing.on('close', () => onward.destroy());
    incoming.pipe(onward);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close: () => server.close() };
}
