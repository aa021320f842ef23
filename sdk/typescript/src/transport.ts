import { retryAfterMs } from "./backoff.js";
import { concatenate } from "./concatenate.js";
import { OptionsError, RequestError } from "./errors.js";
import type { Limits } from "./options.js";

const BATCH_PATH = "/api/v1/receipts/batch";
const ANSWER_BYTES_MAX = 4 << 20;
const utf8Text = new TextDecoder();

/** The runtime's `fetch`, or another function of its kind. */
export type Fetch = typeof globalThis extends { fetch: infer F }
  ? F
  : (url: string, init?: any) => Promise<any>;

/** A fault that the service found; `index` is the receipt's in its batch. */
export interface Fault {
  readonly index: number;
  readonly code: string;
  readonly pointer: string;
  readonly detail: string;
}

/** The result of a request. */
export interface Answer {
  readonly kind: "acknowledged" | "retried" | "refused";
  /** HTTP status, or 0 if there was no usable answer. */
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly pointer: string;
  readonly faults: readonly Fault[];
  /** The least time until the next request. */
  readonly retryAfterMs: number;
}

interface Request {
  readonly method: string;
  readonly url: string;
  readonly headers?: Record<string, string>;
  readonly body?: Uint8Array;
}

interface Response {
  readonly status: number;
  readonly headers: Headers;
  readonly data: Uint8Array;
}

/** Requests to the service. */
export class Transport {
  readonly url: string;
  readonly #fetch: Fetch;
  readonly #timeoutMs: number;
  readonly #closing = new AbortController();

  /** Throws `OptionsError`. */
  constructor(url: string, fetch: Fetch | undefined, limits: Limits) {
    if (typeof url !== "string" || !/^https?:\/\//.test(url) || !URL.canParse(url)) {
      throw new OptionsError(`url is ${String(url)}: write http:// or https:// and a host`);
    }
    this.url = url.replace(/\/+$/, "");
    // Unbound, `fetch` throws in some runtimes.
    this.#fetch = fetch ?? globalThis.fetch.bind(globalThis);
    this.#timeoutMs = limits.requestTimeoutMs;
  }

  /** Send a batch once. */
  async sendBatch(body: Uint8Array): Promise<Answer> {
    let response: Response;
    try {
      response = await this.#request({ method: "POST", url: this.url + BATCH_PATH, body });
    } catch (error) {
      return unusable("unreachable", messageOf(error), 0);
    }
    return answerOf(response);
  }

  /** Send another request; return the body of its 200. Throws `RequestError`. */
  async query(request: Request): Promise<Uint8Array> {
    const { method, url } = request;
    const response = await this.#request(request).catch((error: unknown) => {
      throw new RequestError(0, `${method} ${url}: ${messageOf(error)}`, { cause: error });
    });
    if (response.status === 200) return response.data;
    const text = utf8Text.decode(response.data.subarray(0, 500));
    throw new RequestError(response.status, `${method} ${url}: ${response.status} ${text}`);
  }

  /** Cut the requests that are in flight. */
  close(): void {
    this.#closing.abort(new Error("the client is closed"));
  }

  async #request({ method, url, headers, body }: Request): Promise<Response> {
    const abort = new AbortController();
    const timer = setTimeout(
      () => abort.abort(new Error(`no answer within ${this.#timeoutMs} ms`)),
      this.#timeoutMs,
    );
    const close = () => abort.abort(this.#closing.signal.reason);
    this.#closing.signal.addEventListener("abort", close);
    if (this.#closing.signal.aborted) close();
    try {
      const response = await this.#fetch(url, {
        method,
        headers: {
          "User-Agent": "receipts-client-typescript",
          ...(body && { "Content-Type": "application/json" }),
          ...headers,
        },
        ...(body && { body }),
        redirect: "manual",
        signal: abort.signal,
      });
      const data = await bodyOf(response);
      return { status: response.status, headers: response.headers, data };
    } finally {
      clearTimeout(timer);
      this.#closing.signal.removeEventListener("abort", close);
    }
  }
}

/** Return what an answer to a batch means. */
function answerOf({ status, headers, data }: Response): Answer {
  const waitMs = retryAfterMs(headers.get("Retry-After"), Date.now());
  const members = membersOf(data);
  const isFinal = status >= 400 && status < 500 && status !== 408 && status !== 429;
  if (!members) {
    // Another program answered, such as a proxy, or the answer was cut off.
    const answer = unusable("unexpected_answer", `status ${status}`, waitMs);
    return isFinal ? { ...answer, kind: "refused", status } : answer;
  }
  if (status === 202 && "batchId" in members) {
    return { ...unusable("", "", 0), kind: "acknowledged", status };
  }
  if (status < 300) return unusable("unexpected_answer", `status ${status}`, waitMs);
  const errors: unknown = members["errors"];
  return {
    kind: isFinal ? "refused" : "retried",
    status,
    code: String(members["code"] ?? status),
    detail: String(members["detail"] ?? ""),
    pointer: String(members["pointer"] ?? ""),
    faults: Array.isArray(errors) ? errors.flatMap(faultsOf) : [],
    retryAfterMs: waitMs,
  };
}

function unusable(code: string, detail: string, waitMs: number): Answer {
  return {
    kind: "retried",
    status: 0,
    code,
    detail,
    pointer: "",
    faults: [],
    retryAfterMs: waitMs,
  };
}

function membersOf(data: Uint8Array): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(utf8Text.decode(data));
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    return isObject ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
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

async function bodyOf(response: { body: unknown }): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let length = 0;
  const reader = (response.body as ReadableStreamLike | null)?.getReader();
  for (let chunk = await reader?.read(); chunk?.value; chunk = await reader?.read()) {
    length += chunk.value.length;
    if (length > ANSWER_BYTES_MAX) {
      await reader?.cancel();
      throw new Error(`the answer has more than ${ANSWER_BYTES_MAX} bytes`);
    }
    parts.push(chunk.value);
  }
  return concatenate(parts);
}

interface ReadableStreamLike {
  getReader(): {
    read(): Promise<{ value?: Uint8Array | undefined }>;
    cancel(): Promise<void>;
  };
}

function messageOf(error: unknown): string {
  const { message, cause } = error as Error;
  const detail = cause instanceof Error ? cause.message : "";
  return detail ? `${message}: ${detail}` : message;
}
