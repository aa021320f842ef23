// Signs receipts as service-interface.md says, with nothing of this project: Node's crypto and the npm
// package `canonicalize` (RFC 8785).

import { createHash, createPublicKey, createPrivateKey, generateKeyPairSync, randomUUID, sign, verify } from 'node:crypto';
import canonicalize from 'canonicalize';

const KINDS = {
  'Ed25519': { type: 'ed25519', options: {}, digest: null },
  'RSA-2048': { type: 'rsa', options: { modulusLength: 2048 }, digest: 'sha256' },
  'ECDSA-P256': { type: 'ec', options: { namedCurve: 'P-256' }, digest: 'sha256' },
};

export const ALGORITHMS = Object.keys(KINDS);

/** The bytes a signature covers: the canonical form without the document's own two signature members. */
export function signedBytes(document) {
  const { signature, signatureAlgorithm, ...rest } = document;
  return Buffer.from(canonicalize(rest), 'utf8');
}

export const payloadHash = (receipt) => createHash('sha256').update(signedBytes(receipt)).digest('hex');

export class Signer {
  /** ECDSA signatures come in DER or, with `raw`, as 64 bytes. */
  constructor(algorithm, { raw = false, pem = null, name = algorithm } = {}) {
    const kind = KINDS[algorithm];
    this.algorithm = algorithm;
    this.encoding = raw ? 'ieee-p1363' : 'der';
    this.digest = kind.digest;
    this.privateKey = pem ? createPrivateKey(pem) : generateKeyPairSync(kind.type, kind.options).privateKey;
    this.publicPem = createPublicKey(this.privateKey).export({ type: 'spki', format: 'pem' });
    this.client = { id: randomUUID(), name, version: '2.1.0', organization: 'Example Labs', publicKey: this.publicPem };
  }

  /** Base64 of the signature over these bytes. */
  sign(bytes) {
    return sign(this.digest, bytes, { key: this.privateKey, dsaEncoding: this.encoding }).toString('base64');
  }

  /** A receipt or batch with its signature. */
  signed(document) {
    return { ...document, signature: this.sign(signedBytes(document)), signatureAlgorithm: this.algorithm };
  }
}

/** Whether a receipt's or batch's signature is good by Node's own crypto. ECDSA may be DER or 64 raw bytes. */
export function verifies(document, publicPem) {
  const signature = Buffer.from(document.signature, 'base64');
  const dsaEncoding = signature.length === 64 ? 'ieee-p1363' : 'der';
  const { digest } = KINDS[document.signatureAlgorithm];
  return verify(digest, signedBytes(document), { key: publicPem, dsaEncoding }, signature);
}
