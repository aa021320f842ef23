// Queries about receipts that were sent.

import { toBase64 } from "./base64.js";
import { RequestError } from "./errors.js";
import { publicKeyOf } from "./key.js";
import type { Signer } from "./signers.js";
import { signatureText } from "./signers.js";
import type { Transport } from "./transport.js";

const OUTCOMES_PATH = "/api/v1/client/outcomes";
const EXPLAIN_PATH = "/api/v1/receipts/explain";
const SIGNATURE_S = 60;
const utf8 = new TextEncoder();
const utf8Text = new TextDecoder();

/** What became of a receipt that wasn't simply counted (docs/outcomes.md). */
export interface Outcome {
  readonly outcome: "rejected" | "duplicate" | "conflict" | "unattributed";
  /** Null for a line that counts several receipts. */
  readonly receiptId: string | null;
  readonly reason?: string;
  readonly detail?: string;
  /** What to change. */
  readonly hint?: string;
  /** Receipts that the line counts. */
  readonly receipts?: number;
  readonly receivedAt?: string;
  /** Continues behind this line. */
  readonly cursor: string;
  readonly [name: string]: unknown;
}

/** The service's checks of a receipt. */
export type Explanation = Readonly<Record<string, unknown>>;

/** Yield the lines of all pages. Throws `RequestError`. */
export async function* outcomes(
  transport: Transport,
  signer: Signer,
  url: string,
  after: string | undefined,
): AsyncGenerator<Outcome, void, void> {
  for (;;) {
    const query = new URLSearchParams({ limit: "1000", ...(after !== undefined && { after }) });
    const target = `${url}${OUTCOMES_PATH}?${query}`;
    const headers = await signedHeaders(signer, "GET", target);
    const data = await transport.query({ method: "GET", url: target, headers });
    const lines = utf8Text.decode(data).split("\n").filter(Boolean).map(membersOf);
    const last = lines.pop();
    if (!last) throw new RequestError(200, `GET ${target}: the answer has no last line`);
    yield* lines as unknown as Outcome[];
    if (last["more"] !== true) return;
    after = String(last["cursor"]);
  }
}

/** Return the service's checks of a receipt. Throws `RequestError`. */
export async function explain(
  transport: Transport,
  receipt: Uint8Array | string,
): Promise<Explanation> {
  const body = typeof receipt === "string" ? utf8.encode(receipt) : receipt;
  const data = await transport.query({ method: "POST", url: transport.url + EXPLAIN_PATH, body });
  return membersOf(utf8Text.decode(data));
}

/** Return the fields that sign a request (RFC 9421, sections 2.5 and 3.1). */
export async function signedHeaders(
  signer: Signer,
  method: string,
  target: string,
): Promise<Record<string, string>> {
  const now = Math.floor(Date.now() / 1_000);
  const parameters = `("@method" "@target-uri");created=${now};expires=${now + SIGNATURE_S}`;
  const base = [
    `"@method": ${method}`,
    `"@target-uri": ${target}`,
    `"@signature-params": ${parameters}`,
  ];
  return {
    "X-Client-Public-Key": toBase64(publicKeyOf(signer.publicKey).der),
    "Signature-Input": `sig1=${parameters}`,
    Signature: `sig1=:${await signatureText(signer, utf8.encode(base.join("\n")))}:`,
  };
}

function membersOf(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch (error) {
    throw new RequestError(200, `the answer isn't JSON: ${text.slice(0, 200)}`, { cause: error });
  }
}
