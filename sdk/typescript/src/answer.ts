// What an answer to a batch means: the rule of conformance/README.md, "Answers to a batch".

import type { Acknowledgement } from "./acknowledgement.js";
import { retryAfterMs } from "./backoff.js";

/** A fault that the service found; `index` is the receipt's in its batch. */
export interface Fault {
  readonly index: number;
  readonly code: string;
  readonly pointer: string;
  readonly detail: string;
}

/** The result of a request. */
export interface Answer {
  readonly kind: "acknowledged" | "retried" | "refused" | "split";
  /** HTTP status, or 0 if there was no answer. */
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  /** Whether it is the gateway's own problem document, not a proxy's page. */
  readonly isGateways: boolean;
  readonly faults: readonly Fault[];
  /** Verified acknowledgement. */
  readonly acknowledgement?: Acknowledgement;
  /** Members of the body, if it is a JSON object. */
  readonly members: Readonly<Record<string, unknown>>;
  /** The least time until the next request. */
  readonly retryAfterMs: number;
  /** Time by the clock of whoever answered, in milliseconds since 1970; NaN if it isn't known. */
  readonly dateMs: number;
}

/** Status, header fields and body of a response. */
export interface Reply {
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  readonly data: Uint8Array;
}

// The types of problems that judge the bytes, so that no later try changes the answer.
const JUDGEMENT = new RegExp(
  "(?:^|/)problems/(?:invalid_json|invalid_receipt|invalid_batch|wrong_address|bad_signature|" +
    "bad_batch_signature|missing_request_signature|invalid_request_signature|" +
    "bad_request_signature|client_key_unknown|client_key_revoked|body_too_large|" +
    "decoded_body_too_large)$",
);
const utf8Text = new TextDecoder();

/** Return what an answer to a batch means. An acknowledgement isn't verified here. */
export function answerOf({ status, headers, data }: Reply, batchId: string): Answer {
  const members = membersOf(data) ?? {};
  const answer = {
    ...retried(String(members["code"] ?? "unexpected_answer"), detailOf(status, headers, members)),
    status,
    members,
    retryAfterMs: retryAfterMs(headers.get("Retry-After"), Date.now()),
    dateMs: Date.parse(headers.get("Date") ?? ""),
  };
  if (status === 202 && members["batchId"] === batchId && members["status"] === "queued") {
    return { ...answer, kind: "acknowledged", isGateways: true };
  }
  const { type, errors } = members;
  const isJudgement = typeof type === "string" && JUDGEMENT.test(type);
  if (status < 400 || status >= 500 || !(isJudgement || status === 413)) return answer;
  return {
    ...answer,
    kind: status === 413 ? "split" : "refused",
    detail: String(members["detail"] ?? ""),
    isGateways: isJudgement,
    faults: isJudgement && Array.isArray(errors) ? errors.flatMap(faultsOf) : [],
  };
}

/** Return an answer that ends nothing: the same bytes are sent again. */
export function retried(code: string, detail: string): Answer {
  return {
    kind: "retried",
    status: 0,
    code,
    detail,
    isGateways: false,
    faults: [],
    members: {},
    retryAfterMs: 0,
    dateMs: Number.NaN,
  };
}

/** Return the members of a JSON object, or `undefined` if the bytes aren't one. */
export function membersOf(data: Uint8Array): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(utf8Text.decode(data));
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    return isObject ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function detailOf(
  status: number,
  headers: Reply["headers"],
  members: Record<string, unknown>,
): string {
  const location = headers.get("Location");
  const detail = typeof members["detail"] === "string" ? ` ${members["detail"]}` : "";
  return `status ${status}${detail}${location ? `, Location: ${location}` : ""}`;
}

function faultsOf(error: unknown): Fault[] {
  const members = Object(error) as Record<string, unknown>;
  const match = /^\/receipts\/(\d+)(\/.*)?$/s.exec(String(members["pointer"] ?? ""));
  if (!match) return [];
  return [
    {
      index: Number(match[1]),
      code: String(members["code"]),
      pointer: match[2] ?? "",
      detail: String(members["detail"] ?? ""),
    },
  ];
}
