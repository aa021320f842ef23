import type { ClientOptions, Use } from "receipts-client";
import { Client, PemSigner } from "receipts-client";
import { FakeGateway } from "receipts-client/testing";
import { keyPem } from "./vectors.js";

export const CLIENT_ID = "018f3f3c-7f2e-7cc0-8b6a-2f6d1c7e9a10";
export const USE: Use = {
  url: "https://news.example/2026/11/lead",
  purpose: "inference",
  context: "an answer",
  content: "hello",
};

export const signer = await PemSigner.fromPem(keyPem("ed25519"));

/** Options of a client that is fast and silent. */
export function optionsFor(gateway: FakeGateway, more: Partial<ClientOptions> = {}): ClientOptions {
  return {
    url: gateway.url,
    fetch: gateway.fetch,
    clientId: CLIENT_ID,
    name: "Atlas",
    version: "3.1",
    organization: "Example Labs",
    signer,
    batchDelayMs: 20,
    retryDelayMsMin: 1,
    retryDelayMsMax: 5,
    logger: { warn() {}, error() {} },
    ...more,
  };
}

/** A client of a gateway in memory. */
export function clientOf(more: Partial<ClientOptions> = {}): {
  client: Client;
  gateway: FakeGateway;
} {
  const gateway = new FakeGateway();
  return { client: new Client(optionsFor(gateway, more)), gateway };
}

/** An answer of the service that names a problem. */
export function problem(
  status: number,
  code: string,
  errors: readonly unknown[] = [],
  headers: Record<string, string> = {},
): Response {
  const members = { type: `/problems/${code}`, code, detail: `scripted ${code}`, errors };
  return Response.json(members, { status, headers });
}
