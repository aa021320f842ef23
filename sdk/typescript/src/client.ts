import { host } from "#host";

import { signedReceipt } from "./batch.js";
import { canonicalText } from "./canonical.js";
import type { State } from "./delivery.js";
import { Delivery } from "./delivery.js";
import type { Entry } from "./entries.js";
import { Entries } from "./entries.js";
import type { Rejection } from "./errors.js";
import { ClosedError, OptionsError, RejectedError, UseError } from "./errors.js";
import type { Hooks } from "./hooks.js";
import { Caller } from "./hooks.js";
import type { Limits } from "./options.js";
import { DEFAULT_LIMITS, limitsOf } from "./options.js";
import type { Explanation, Outcome } from "./outcomes.js";
import { explain, outcomes } from "./outcomes.js";
import type { Settle } from "./settlers.js";
import type { Signer } from "./signers.js";
import { checkSigner } from "./signers.js";
import type { Fetch } from "./transport.js";
import { Transport } from "./transport.js";
import type { Use } from "./use.js";
import { filledText, membersOf, textOf, unknownNameOf, uuidOf } from "./use.js";
import { within } from "./within.js";

const CLOSE_WAIT_MS = 5_000;

/** Options of a client. */
export interface ClientOptions extends Partial<Limits>, Hooks {
  /** Base URL of the gateway. */
  readonly url: string;
  /** UUID of the model or product, the same in all its receipts. */
  readonly clientId: string;
  readonly signer: Signer;
  /** Name of the model or product, for people; a claim that proves nothing, as the next two. */
  readonly name?: string | undefined;
  readonly version?: string | undefined;
  readonly organization?: string | undefined;
  /**
   * Directory of the spool. With it, what `record` returned survives the end of the process, and
   * the next client with this directory delivers it. Without, it is in memory. Node, Deno, Bun.
   */
  readonly spoolDir?: string | undefined;
  /** Base URL of the analytics API, which has the outcomes; `url` unless given. */
  readonly analyticsUrl?: string | undefined;
  /** Base URL of the publisher API, which has the entries; `url` unless given. */
  readonly publisherUrl?: string | undefined;
  /** Whether bodies are compressed with gzip, which they are by default. */
  readonly isCompressed?: boolean | undefined;
  /** Replaces the runtime's `fetch`, for proxies, own certificates and tests. */
  readonly fetch?: Fetch | undefined;
}

// The compiler compares the names with the types.
const OPTIONS = {
  ...DEFAULT_LIMITS,
  url: true,
  clientId: true,
  signer: true,
  name: true,
  version: true,
  organization: true,
  spoolDir: true,
  analyticsUrl: true,
  publisherUrl: true,
  isCompressed: true,
  fetch: true,
  onAcknowledged: true,
  onRejected: true,
  onFailed: true,
  onMetric: true,
  waitUntil: true,
  logger: true,
} satisfies Record<keyof ClientOptions, unknown>;

/**
 * Signs uses, batches them and delivers them to a gateway.
 *
 * When the process has nothing else to do, a client that is open has 5 seconds to deliver. Before
 * `process.exit()`, and on signals, call `close`.
 */
export class Client {
  readonly #signer: Signer;
  readonly #transport: Transport;
  readonly #delivery: Delivery;
  readonly #caller: Caller;
  readonly #entries: Entries;
  readonly #analyticsUrl: string;
  /** The member `client` of all receipts, in canonical form. */
  readonly #members: string;
  readonly #recording = new Set<Promise<string>>();
  readonly #cancelDrain: () => void;
  #checking: Promise<void> | undefined;
  #closing: Promise<boolean> | undefined;

  /** Throws `OptionsError`. */
  constructor(options: ClientOptions) {
    const { signer, url, analyticsUrl = url, publisherUrl = url, spoolDir } = options;
    const unknown = unknownNameOf(options, OPTIONS);
    if (unknown) throw new OptionsError(`a client has no option ${unknown}`);
    const limits = limitsOf(options);
    const caller = new Caller(options);
    this.#caller = caller;
    this.#signer = signer;
    this.#members = clientMembers(options);
    this.#transport = new Transport(url, limits, options);
    this.#entries = new Entries(this.#transport, publisherUrl);
    this.#analyticsUrl = analyticsUrl.replace(/\/+$/, "");
    this.#delivery = new Delivery(signer, this.#transport, limits, caller, spoolDir);
    this.#cancelDrain = host.beforeExit(() => this.close());
  }

  /**
   * Wait until the spool is open, which `record` does as well. Throws `SpoolError`.
   */
  ready(): Promise<void> {
    return this.#delivery.ready();
  }

  /**
   * Sign and queue a use; return the ID of its receipt. Makes no request, and waits for up to
   * `queueWaitMs` if the queue is full.
   *
   * Throws `UseError`, `KeyError`, `QueueFullError`, `ClosedError`, `SpoolError` or what the signer
   * throws; the use isn't recorded then. The failure is also logged, counted as `failed` and handed
   * to `onFailed`, so nobody needs to await the promise.
   */
  record(use: Use): Promise<string> {
    return this.#record(use, undefined);
  }

  /**
   * Record a use and wait until it is acknowledged; return the ID of its receipt.
   *
   * Throws `RejectedError` if the service refuses it, `ClosedError` if the client is closed before,
   * and what `record` throws.
   */
  async submit(use: Use): Promise<string> {
    let settle: Settle = () => {};
    const settled = new Promise<Rejection | Error | undefined>((resolve) => (settle = resolve));
    const receiptId = await this.#record(use, settle);
    await within(settled, Infinity);
    const problem = await settled;
    if (problem instanceof Error) throw problem;
    if (problem) throw new RejectedError(problem);
    return receiptId;
  }

  /**
   * Send everything recorded, also by calls of `record` that are in progress; return whether all of
   * it has its final answer in time.
   */
  async flush({ timeoutMs = Infinity }: { timeoutMs?: number } = {}): Promise<boolean> {
    const begunAt = performance.now();
    await within(Promise.allSettled(this.#recording), timeoutMs);
    return this.#delivery.flush(Math.max(0, timeoutMs - (performance.now() - begunAt)));
  }

  /**
   * Flush for at most `timeoutMs` and end; return whether everything was delivered. With a spool,
   * the rest stays there. Without, it is lost.
   */
  close({ timeoutMs = CLOSE_WAIT_MS }: { timeoutMs?: number } = {}): Promise<boolean> {
    this.#closing ??= this.#close(timeoutMs);
    return this.#closing;
  }

  /** Close, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Return counters. */
  state(): State {
    return this.#delivery.state();
  }

  /**
   * Yield what became of receipts that weren't simply counted, from the cursor `after` on. Hand the
   * last `cursor` back as `after`. Throws `RequestError`.
   */
  outcomes({ after }: { after?: string | undefined } = {}): AsyncGenerator<Outcome, void, void> {
    return outcomes(this.#transport, this.#signer, this.#analyticsUrl, after);
  }

  /** Return the service's checks of a receipt, which isn't stored. Throws `RequestError`. */
  explain(receipt: Uint8Array | string): Promise<Explanation> {
    return explain(this.#transport, receipt);
  }

  /**
   * Return what the service has of each URL, such as its publisher; null for a URL that can't be.
   * Answers are cached for five minutes. Throws `RequestError`.
   */
  resolve(urls: Iterable<string>): Promise<Map<string, Entry | null>> {
    return this.#entries.resolve(urls);
  }

  #record(use: Use, settle: Settle | undefined): Promise<string> {
    const recording = this.#put(use, settle);
    this.#recording.add(recording);
    // Also handles the failure of a call that nobody awaits, which would end a Node process.
    recording.then(
      () => this.#recording.delete(recording),
      (error: unknown) => {
        this.#recording.delete(recording);
        this.#caller.fail(error, use);
      },
    );
    return recording;
  }

  async #put(use: Use, settle: Settle | undefined): Promise<string> {
    if (this.#closing) throw new ClosedError("the client is closed");
    const members = await membersOf(use);
    await this.#check();
    const receipt = await signedReceipt(members, this.#members, this.#signer);
    await this.#delivery.put(receipt, members.receiptId, settle);
    return members.receiptId;
  }

  /** Check the signer once. One that is away is checked again. */
  #check(): Promise<void> {
    this.#checking ??= checkSigner(this.#signer).catch((error: unknown) => {
      this.#checking = undefined;
      throw error;
    });
    return this.#checking;
  }

  async #close(timeoutMs: number): Promise<boolean> {
    const begunAt = performance.now();
    await within(Promise.allSettled(this.#recording), timeoutMs);
    const isDone = await this.#delivery.close(
      Math.max(0, timeoutMs - (performance.now() - begunAt)),
    );
    this.#caller.logFailures();
    this.#cancelDrain();
    return isDone;
  }
}

/** Return the member `client`, in canonical form. Throws `OptionsError`. */
function clientMembers(options: ClientOptions): string {
  const { clientId, signer, name = "unnamed", version = "unknown" } = options;
  const { organization = "unnamed" } = options;
  if (typeof signer?.sign !== "function") {
    throw new OptionsError("signer isn't one: await PemSigner.fromPem, or write a CallbackSigner");
  }
  try {
    return canonicalText({
      id: uuidOf("clientId", clientId),
      name: filledText("name", name),
      version: filledText("version", version),
      organization: filledText("organization", organization),
      publicKey: textOf("publicKey", signer.publicKey),
    });
  } catch (error) {
    if (error instanceof UseError) throw new OptionsError(error.message);
    throw error;
  }
}
