import { host } from "#host";

import type { BatchToSend } from "./acknowledgement.js";
import { PublishedKeys } from "./acknowledgement.js";
import type { Answer, Reply } from "./answer.js";
import { answerOf, retried } from "./answer.js";
import { concatenate } from "./concatenate.js";
import { OptionsError, RequestError } from "./errors.js";
import type { Limits } from "./options.js";
import { VERSION } from "./version.js";

const USER_AGENT = `receipts-client-typescript/${VERSION}`;
const KEYS_PATH = "/.well-known/receipts-keys.json";
// Smaller bodies are sent as they are.
const GZIP_BYTES_MIN = 1_024;
const BATCH_PATH = "/api/v1/receipts/batch";
const ANSWER_BYTES_MAX = 16 << 20;
const utf8Text = new TextDecoder();

/** The runtime's `fetch`, or another function of its kind. */
export type Fetch = typeof globalThis extends { fetch: infer F }
  ? F
  : (url: string, init?: any) => Promise<any>;

interface Request {
  readonly method: string;
  readonly url: string;
  readonly headers?: Record<string, string>;
  readonly body?: Uint8Array;
}

/** Requests to the service. */
export class Transport {
  readonly url: string;
  readonly #fetch: Fetch;
  readonly #timeoutMs: number;
  readonly #closing = new AbortController();
  readonly #keys: PublishedKeys;
  #compresses: boolean;

  /** Throws `OptionsError`. */
  constructor(
    url: string,
    limits: Limits,
    {
      fetch,
      isCompressed = true,
    }: { fetch?: Fetch | undefined; isCompressed?: boolean | undefined },
  ) {
    if (typeof url !== "string" || !/^https?:\/\//.test(url) || !URL.canParse(url)) {
      throw new OptionsError(`url is ${String(url)}: write http:// or https:// and a host`);
    }
    this.url = url.replace(/\/+$/, "");
    this.#fetch = fetch ?? host.fetch;
    this.#compresses = isCompressed;
    this.#timeoutMs = limits.requestTimeoutMs;
    this.#keys = new PublishedKeys(() => this.query({ method: "GET", url: this.url + KEYS_PATH }));
  }

  /** Send a batch once. */
  async sendBatch(batch: BatchToSend): Promise<Answer> {
    let answer: Answer;
    try {
      const packed = await this.#packed(batch.body);
      const reply = await this.#request({ method: "POST", url: this.url + BATCH_PATH, ...packed });
      answer = answerOf(reply, batch.batchId);
    } catch (error) {
      return retried("unreachable", messageOf(error));
    }
    if (["unsupported_encoding", "invalid_encoding"].includes(answer.code)) {
      this.#compresses = false;
    }
    if (answer.kind !== "acknowledged") return answer;
    try {
      return { ...answer, acknowledgement: await this.#keys.verify(answer.members, batch) };
    } catch (error) {
      return { ...retried("unverified", messageOf(error)), status: answer.status };
    }
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

  async #packed(body: Uint8Array): Promise<Pick<Request, "headers" | "body">> {
    const isPlain = !this.#compresses || body.length < GZIP_BYTES_MIN;
    const packed = isPlain ? undefined : await host.gzip(body);
    return packed ? { body: packed, headers: { "Content-Encoding": "gzip" } } : { body };
  }

  async #request({ method, url, headers, body }: Request): Promise<Reply> {
    const abort = new AbortController();
    const timer = setTimeout(
      () => abort.abort(new Error(`no answer within ${this.#timeoutMs} ms`)),
      this.#timeoutMs,
    );
    const close = () => abort.abort(this.#closing.signal.reason);
    this.#closing.signal.addEventListener("abort", close);
    // A caller's own `fetch` may ignore the signal.
    const aborted = new Promise<never>((_, reject) => {
      abort.signal.addEventListener("abort", () => reject(abort.signal.reason));
    });
    if (this.#closing.signal.aborted) close();
    const replied = async () => {
      const response = await this.#fetch(url, {
        method,
        headers: {
          "User-Agent": USER_AGENT,
          ...(body && { "Content-Type": "application/json" }),
          ...headers,
        },
        ...(body && { body }),
        redirect: "manual",
        signal: abort.signal,
      });
      const data = await bodyOf(response);
      return { status: response.status, headers: response.headers, data };
    };
    try {
      return await Promise.race([replied(), aborted]);
    } finally {
      clearTimeout(timer);
      this.#closing.signal.removeEventListener("abort", close);
    }
  }
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
