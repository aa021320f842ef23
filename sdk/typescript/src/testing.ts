// A gateway in memory, for tests of programs that use this package.

import { backend } from "#crypto";

import { toBase64 } from "./base64.js";
import { canonicalize } from "./canonical.js";
import { canonicalUrl, entryIdOf, hostOf } from "./canonical-url.js";
import type { SigningKey } from "./crypto/backend.js";
import { hex } from "./hex.js";
import { publicKeyOf } from "./key.js";
import type { Receipt } from "./receipt.js";
import type { Fetch } from "./transport.js";

const utf8Text = new TextDecoder();
// PKCS#8 of an Ed25519 key whose secret is 32 zeros (RFC 8410, section 7).
const KEY_HEAD = [48, 46, 2, 1, 0, 48, 5, 6, 3, 43, 101, 112, 4, 34, 4, 32];
const KEY_BODY = toBase64(Uint8Array.from([...KEY_HEAD, ...new Array(32).fill(0)]));
const KEY_PEM = `-----BEGIN PRIVATE KEY-----\n${KEY_BODY}\n-----END PRIVATE KEY-----\n`;
const KEY_ID = "test";
const PROBLEMS: Readonly<Record<number, string>> = {
  408: "request_timeout",
  413: "body_too_large",
  429: "rate_limited",
};

/** The runtime's `Response`. */
export type FetchResponse = typeof globalThis extends { Response: { prototype: infer R } }
  ? R
  : object;

/**
 * A gateway that accepts and acknowledges every batch, and verifies nothing. Hand `url` and `fetch`
 * to the client:
 *
 *     const gateway = new FakeGateway();
 *     const client = new Client({ url: gateway.url, fetch: gateway.fetch, ... });
 */
export class FakeGateway {
  readonly url = "https://gateway.invalid";
  /** The receipts that arrived. */
  readonly receipts: Receipt[] = [];
  /** Answers of the next requests, before batches are accepted again. */
  readonly answers: FetchResponse[] = [];
  /** Status of the answers after these. With 503 batches wait; 400 is the gateway's own refusal. */
  status = 202;
  /** Lines that `client.outcomes` reads, without their cursors. */
  readonly outcomes: object[] = [];
  /** Verified domains by the host of a URL, for `client.resolve`. */
  readonly publishers: Record<string, string> = {};
  /** Answer to `client.explain`. */
  explanation: object = {};
  #key: Promise<SigningKey> | undefined;
  #batches = 0;

  readonly fetch = (async (url: unknown, init?: { headers?: object; body?: unknown }) => {
    const { pathname } = new URL(String(url));
    if (pathname === "/.well-known/receipts-keys.json") return this.#publishedKeys();
    const answer = this.answers.shift();
    if (answer) return answer;
    if (this.status !== 202) {
      const code = PROBLEMS[this.status] ?? (this.status < 500 ? "invalid_batch" : "overloaded");
      const problem = { type: `/problems/${code}`, status: this.status, code, detail: "scripted" };
      return Response.json(problem, { status: this.status });
    }
    if (pathname === "/api/v1/client/outcomes") return this.#outcomes();
    if (pathname === "/api/v1/receipts/explain") return Response.json(this.explanation);
    const body = await decoded(init);
    return pathname === "/api/v1/entries/lookup" ? this.#entriesOf(body) : this.#acknowledge(body);
  }) as Fetch;

  async #acknowledge(body: Uint8Array) {
    const { batchId, receipts } = JSON.parse(utf8Text.decode(body)) as {
      batchId: string;
      receipts: Receipt[];
    };
    this.receipts.push(...receipts);
    const signed = {
      requestDigest: `sha256:${hex(await backend.sha256(body))}`,
      batchId,
      receiptCount: receipts.length,
      logPosition: { epoch: 1, partition: 0, offset: this.#batches++ },
      receivedAt: new Date().toISOString(),
      keyId: KEY_ID,
      outcome: "/api/v1/receipts/{receiptId}",
    };
    const signature = toBase64(await (await this.#signingKey()).sign(canonicalize(signed)));
    const acknowledgement = { ...signed, signature };
    const answer = { batchId, receiptCount: receipts.length, status: "queued", acknowledgement };
    return Response.json(answer, { status: 202 });
  }

  async #publishedKeys() {
    const { der } = publicKeyOf((await this.#signingKey()).publicKey);
    const x = toBase64(der.subarray(-32)).replaceAll("+", "-").replaceAll("/", "_");
    const key = { kty: "OKP", crv: "Ed25519", kid: KEY_ID, x: x.replaceAll("=", "") };
    return Response.json({ keys: [key] });
  }

  async #entriesOf(body: Uint8Array) {
    const { urls } = JSON.parse(utf8Text.decode(body)) as { urls: string[] };
    const entries = urls.map(async (url) => {
      const publisher = this.publishers[hostOf(url)] ?? null;
      return { url: canonicalUrl(url), entryId: await entryIdOf(url), publisher, listed: false };
    });
    return Response.json({ entries: await Promise.all(entries), errors: [] });
  }

  #outcomes() {
    const lines = this.outcomes.map((line, index) => ({ ...line, cursor: `${index + 1}` }));
    const last = { cursor: `${lines.length}`, more: false };
    return new Response([...lines, last].map((line) => `${JSON.stringify(line)}\n`).join(""));
  }

  #signingKey(): Promise<SigningKey> {
    this.#key ??= backend.signingKey(KEY_PEM, undefined);
    return this.#key;
  }
}

async function decoded(init: { headers?: object; body?: unknown } | undefined) {
  const body = init?.body as Uint8Array;
  const { "Content-Encoding": encoding } = (init?.headers ?? {}) as Record<string, string>;
  if (encoding !== "gzip") return body;
  const plain = new Response(body).body?.pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(plain).arrayBuffer());
}
