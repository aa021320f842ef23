// An identity provider of its own, by HTTPS, at which anna signs in by any password.

import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';

const FETCH = resolve(import.meta.dirname, '../../../../scripts/fetch-oidc-provider');
const SECRET = 'a secret of tests';

export interface Provider {
  issuer: string;
  /** Of a service whose people sign in there. */
  settings: Record<string, string>;
  close: () => void;
}

export async function provider(): Promise<Provider> {
  const folder = mkdtempSync(join(tmpdir(), 'receipts-provider-'));
  const at = (name: string) => join(folder, name);
  const openssl = (subject: string, key: string, certificate: string, ...more: string[]) =>
    execFileSync(
      'openssl',
      ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '1'].concat(
        ['-subj', subject, '-keyout', at(key), '-out', at(certificate)],
        more.flatMap((extension) => ['-addext', extension]),
        certificate === 'ca.pem' ? [] : ['-CA', at('ca.pem'), '-CAkey', at('ca.key')],
      ),
      { stdio: 'ignore' },
    );
  openssl('/CN=receipts test authority', 'ca.key', 'ca.pem', 'keyUsage=critical,keyCertSign,cRLSign');
  const server = ['basicConstraints=critical,CA:FALSE', 'subjectAltName=DNS:localhost,IP:127.0.0.1'];
  openssl('/CN=localhost', 'key.pem', 'certificate.pem', ...server);
  writeFileSync(at('secret'), SECRET);
  const program = execFileSync(FETCH, ['--path'], { encoding: 'utf8' }).trim();
  // Of a loopback redirect the provider takes any port (RFC 8252, section 7.3).
  const back = 'http://127.0.0.1/api/v1/auth/callback';
  const child = spawn('node', [program, at('key.pem'), at('certificate.pem'), back, SECRET], {
    env: { ...process.env, NODE_EXTRA_CA_CERTS: at('ca.pem') },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const issuer = await new Promise<string>((done, failed) => {
    createInterface({ input: child.stdout }).once('line', done);
    child.once('exit', () => failed(new Error('the provider ended')));
  });
  return {
    issuer,
    settings: {
      RECEIPTS_AUTH_ISSUER: issuer,
      RECEIPTS_AUTH_AUDIENCE: 'receipts',
      RECEIPTS_AUTH_JWKS_URL: `${issuer}/jwks`,
      RECEIPTS_AUTH_CLIENT_ID: 'receipts',
      RECEIPTS_AUTH_CLIENT_SECRET_FILE: at('secret'),
      RECEIPTS_OUTBOUND_PORTS: `[${new URL(issuer).port}]`,
      RECEIPTS_OUTBOUND_TEST_ROOT_CA: at('ca.pem'),
      RECEIPTS_OUTBOUND_TEST_ALLOW_ADDRESSES: '["127.0.0.0/8"]',
    },
    close: () => {
      child.kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
