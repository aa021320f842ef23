// The other side of tests/interop.rs: receipts signed and verified by Node's crypto, with JSON.stringify as the canonical
// form: ECMAScript's numbers and escapes are RFC 8785's, and sort() compares UTF-16 code units.
import crypto from 'node:crypto';
import { readFileSync } from 'node:fs';

const canonical = value =>
  Array.isArray(value) ? `[${value.map(canonical).join(',')}]`
  : value && typeof value === 'object'
    ? `{${Object.keys(value).sort().map(name => `${JSON.stringify(name)}:${canonical(value[name])}`).join(',')}}`
    : JSON.stringify(value);

const payload = ({ signature, signatureAlgorithm, ...rest }) => Buffer.from(canonical(rest));

const kinds = {
  'Ed25519': { make: () => crypto.generateKeyPairSync('ed25519'), hash: null },
  'RSA-2048': { make: () => crypto.generateKeyPairSync('rsa', { modulusLength: 2048 }), hash: 'sha256' },
  'ECDSA-P256': { make: () => crypto.generateKeyPairSync('ec', { namedCurve: 'P-256' }), hash: 'sha256' },
};

const sign = (message, algorithm, key, dsaEncoding) => ({
  ...message,
  signature: crypto.sign(kinds[algorithm].hash, payload(message), { key, dsaEncoding }).toString('base64'),
  signatureAlgorithm: algorithm,
});

const input = JSON.parse(readFileSync(0));

const signed = Object.keys(kinds).flatMap(algorithm => ['der', 'ieee-p1363'].map(encoding => {
  const { publicKey, privateKey } = kinds[algorithm].make();
  const publicPem = publicKey.export({ type: 'spki', format: 'pem' });
  const receipt = structuredClone(input.receipt);
  receipt.client.publicKey = publicPem;
  receipt.odd = { '\u{fb33}': 1, '\u{1f600}': 2, '\r': 3, '€': [1e21, 1e-7, -0, 0.1, 5e-324, 123456789012345680000] };
  const one = sign(receipt, algorithm, privateKey, encoding);
  const batch = sign({ version: '1.0.0', batchId: 'node', receipts: [one, one] }, algorithm, privateKey, encoding);
  const body = JSON.stringify(one, null, 1);
  const header = crypto.sign(kinds[algorithm].hash, Buffer.from(body), { key: privateKey, dsaEncoding: encoding });
  return { body, batch: JSON.stringify(batch), header: header.toString('base64') };
}));

const verified = input.signed.map(receipt => crypto.verify(
  kinds[receipt.signatureAlgorithm].hash, payload(receipt), receipt.client.publicKey, Buffer.from(receipt.signature, 'base64')));

console.log(JSON.stringify({ signed, verified, canonical: input.values.map(text => canonical(JSON.parse(text))) }));
