// The queue of signed receipts: seals batches, sends them, and tries again.

import { host } from "#host";

import type { Answer } from "./answer.js";
import { receiptIdOf, receiptIdsIn, receiptIdsOf, receiptsOf } from "./batch.js";
import type { Rejection } from "./errors.js";
import { ClosedError } from "./errors.js";
import type { Caller } from "./hooks.js";
import type { ReceiptList } from "./lists.js";
import { ReceiptLists } from "./lists.js";
import type { Limits } from "./options.js";
import { Pace } from "./pace.js";
import { Progress } from "./progress.js";
import { Room } from "./room.js";
import type { Settle } from "./settlers.js";
import { Settlers } from "./settlers.js";
import type { Signer } from "./signers.js";
import type { Spool } from "./spool/spool.js";
import { batchIdOf, newStem, timeMsOf } from "./stem.js";
import type { SealedBatch } from "./store.js";
import { BatchStore, SpoolFile } from "./store.js";
import type { Transport } from "./transport.js";
import { TIMER_MS_MAX, within } from "./within.js";

// Pause after a failure of the signer or of the disk.
const FAILURE_PAUSE_MS = 1_000;
// Time that requests have to end after they were cut.
const CUT_MS = 1_000;

/** Counters of a client. */
export interface State {
  /** Receipts that aren't in flight and not acknowledged. */
  readonly queued: number;
  readonly inFlight: number;
  readonly acknowledged: number;
  readonly batchesAcknowledged: number;
  readonly retries: number;
  /** Batches in the spool that aren't in flight. */
  readonly spooledBatches: number;
}

/** Why receipts end without an acknowledgement. */
type Reason = Pick<Rejection, "code" | "detail"> & { readonly pointer?: string };

/** The bounded queue of a client. */
export class Delivery {
  readonly #transport: Transport;
  readonly #limits: Limits;
  readonly #caller: Caller;
  readonly #room: Room;
  readonly #opening: Promise<void> | undefined;
  readonly #store: BatchStore;
  readonly #lists: ReceiptLists;
  readonly #sealed: SealedBatch[] = [];
  readonly #tasks = new Set<Promise<void>>();
  readonly #settlers = new Settlers();
  readonly #progress = new Progress();
  readonly #pace: Pace;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #adoptTimer: ReturnType<typeof setInterval> | undefined;
  #isClosed = false;
  #isWaitedFor = false;
  #sealing: ReceiptList | undefined;
  readonly #sending = new Set<SealedBatch>();
  #inFlight = 0;
  #acknowledged = 0;
  #batches = 0;
  #retries = 0;

  constructor(
    signer: Signer,
    transport: Transport,
    limits: Limits,
    caller: Caller,
    spoolDir: string | undefined,
  ) {
    this.#transport = transport;
    this.#limits = limits;
    this.#caller = caller;
    this.#store = new BatchStore(signer, limits, caller.logger);
    this.#lists = new ReceiptLists(limits, this.#store, this.#progress);
    this.#room = new Room(limits);
    this.#pace = new Pace(limits);
    this.#opening = spoolDir === undefined ? undefined : this.#openSpool(spoolDir);
    // `ready` and `put` report it.
    this.#opening?.catch(() => {});
  }

  /** Wait until the spool is open. Throws `SpoolError`. */
  async ready(): Promise<void> {
    await this.#opening;
  }

  /** Queue a signed receipt. Throws `QueueFullError`, `ClosedError` or `SpoolError`. */
  async put(receipt: Uint8Array, receiptId: string, settle: Settle | undefined): Promise<void> {
    if (this.#opening) await this.#opening;
    await this.#room.take(receipt.length);
    try {
      if (this.#isClosed) throw new ClosedError("the client is closed");
      if (this.#lists.append(receipt)) {
        this.#waitUntil();
        this.#pump();
      }
    } catch (error) {
      this.#room.add(-1, -receipt.length);
      this.#pump();
      throw error;
    }
    if (settle) this.#settlers.add(receiptId, settle);
    this.#caller.measure("recorded", 1);
  }

  /** Seal and send everything; return whether all of it has its final answer in time. */
  async flush(timeoutMs: number): Promise<boolean> {
    return within(
      this.ready().then(() => {
        this.#lists.fill();
        this.#pump();
        return this.#progress.ended(this.#progress.last);
      }),
      timeoutMs,
    );
  }

  /** Flush and end; return whether everything was delivered. */
  async close(timeoutMs: number): Promise<boolean> {
    await this.ready().catch(() => {});
    // A last try, however long the back-off is; but not before Retry-After.
    this.#pace.resume();
    for (const batch of this.#sealed) batch.notBefore = 0;
    // A client whose spool can't be opened recorded nothing of what it got.
    const isDone = await this.flush(timeoutMs).catch(() => false);
    this.#isClosed = true;
    clearTimeout(this.#timer);
    clearInterval(this.#adoptTimer);
    this.#transport.close();
    this.#room.close();
    await within(Promise.allSettled(this.#tasks), CUT_MS);
    this.#settlers.settleAll(new ClosedError("the client is closed"));
    const rest = this.#room.receipts;
    const lost = await this.#unspooled();
    if (!isDone && rest) {
      const others = lost.length < rest ? `${rest - lost.length} stay in the spool, and ` : "";
      this.#caller.logger.error(
        `${rest} receipts aren't acknowledged: ${others}${lost.length} are lost`,
      );
    }
    const detail = "the client was closed before the service answered";
    await this.#reject(lost.map((one) => rejectionOf(one, { code: "undelivered", detail })));
    await this.#store.spool?.close();
    return isDone;
  }

  state(): State {
    return {
      queued: this.#room.receipts - this.#inFlight,
      inFlight: this.#inFlight,
      acknowledged: this.#acknowledged,
      batchesAcknowledged: this.#batches,
      retries: this.#retries,
      spooledBatches: this.#sealed.filter(({ isStored }) => isStored).length,
    };
  }

  async #openSpool(directory: string): Promise<void> {
    const { syncIntervalMs, spoolRetainedBytesMax, adoptIntervalMs } = this.#limits;
    const { logger } = this.#caller;
    // Not awaited: onRejected may call `record`, which waits until the spool is open.
    const onDamaged = (name: string, reason: string, runs: readonly Uint8Array[]) =>
      this.#run(this.#reportDamage(`${name} ${reason}`, runs));
    const settings = { syncIntervalMs, spoolRetainedBytesMax, logger, onDamaged };
    const spool = await host.openSpool(directory, settings);
    this.#store.spool = spool;
    await this.#adopt(spool);
    // A client that lives for long also takes what other clients leave meanwhile.
    this.#adoptTimer = setInterval(() => {
      this.#adopt(spool).catch((error: Error) => {
        logger.error(`the spool can't be searched for what ended clients left: ${error.message}`);
      });
    }, adoptIntervalMs);
    (this.#adoptTimer as { unref?: () => void }).unref?.();
  }

  async #adopt(spool: Spool): Promise<void> {
    for (const { stem, path, body, receipts = [] } of await spool.adopt()) {
      const file = new SpoolFile(spool, path);
      if (body) {
        const count = receiptsOf(body).length;
        this.#room.add(count, body.length);
        const batch = { stem, count, bytes: body.length, body: undefined, file, isStored: true };
        const sequence = this.#progress.begin();
        this.#sealed.push({ ...batch, sequence, attempts: 0, notBefore: 0 });
      } else if (receipts.length) {
        this.#room.add(receipts.length, this.#lists.adopt(stem, file, receipts));
      } else {
        await file.release();
      }
    }
    this.#pump();
  }

  /** Hand a promise to the caller's `waitUntil`, if there isn't one already. */
  #waitUntil(): void {
    if (!this.#caller.wantsToWait || this.#isWaitedFor) return;
    this.#isWaitedFor = true;
    this.#caller.waitUntil(this.#idle());
  }

  async #idle(): Promise<void> {
    while (!this.#progress.isIdle && !this.#isClosed) {
      await within(this.#progress.ended(this.#progress.last), TIMER_MS_MAX);
    }
    this.#isWaitedFor = false;
  }

  /** Begin what can begin, and set a timer for what can't yet. */
  #pump(): void {
    if (this.#isClosed) return;
    const now = performance.now();
    const { requestsInFlightMax } = this.#limits;
    if (now >= this.#lists.dueAt) this.#lists.fill();
    const list = this.#sealing ? undefined : takeDue(this.#lists.full, now);
    if (list) this.#run(this.#seal(list));
    while (this.#sending.size < requestsInFlightMax && now >= this.#pace.pausedUntil) {
      const batch = takeDue(this.#sealed, now);
      if (!batch) break;
      this.#run(this.#send(batch));
    }
    const times = [this.#lists.dueAt];
    if (!this.#sealing) times.push(...this.#lists.full.map((waiting) => waiting.notBefore));
    if (this.#sending.size < requestsInFlightMax) {
      for (const { notBefore } of this.#sealed)
        times.push(Math.max(notBefore, this.#pace.pausedUntil));
    }
    this.#wakeAt(
      times.reduce((least, time) => Math.min(least, time), Infinity),
      now,
    );
  }

  #wakeAt(time: number, now: number): void {
    clearTimeout(this.#timer);
    if (time === Infinity) return;
    const delayMs = Math.min(Math.max(Math.ceil(time - now), 1), TIMER_MS_MAX);
    this.#timer = setTimeout(() => this.#pump(), delayMs);
    // An idle process may end; then the host drains (host/node.ts).
    (this.#timer as { unref?: () => void }).unref?.();
  }

  #run(task: Promise<void>): void {
    const running = task.finally(() => {
      this.#tasks.delete(running);
      this.#pump();
    });
    this.#tasks.add(running);
  }

  async #seal(list: ReceiptList): Promise<void> {
    this.#sealing = list;
    try {
      if (list.receipts.length) {
        const batch = await this.#store.seal(list.receipts, list, list.stem);
        this.#room.add(0, batch.bytes - (list.bytes - batch.count));
        this.#sealed.push(batch);
        await list.journal?.close({ isNeeded: !batch.isStored });
      } else {
        this.#progress.end(list.sequence);
        await list.journal?.close({ isNeeded: false });
      }
      await list.file?.release();
    } catch (error) {
      this.#logFailure("signed", error);
      list.notBefore = performance.now() + FAILURE_PAUSE_MS;
      this.#lists.full.push(list);
    } finally {
      this.#sealing = undefined;
    }
  }

  async #send(batch: SealedBatch): Promise<void> {
    this.#sending.add(batch);
    this.#inFlight += batch.count;
    try {
      await this.#sendOnce(batch);
    } catch (error) {
      this.#logFailure("read or signed", error);
      this.#again(batch, FAILURE_PAUSE_MS);
    } finally {
      this.#sending.delete(batch);
    }
  }

  async #sendOnce(batch: SealedBatch): Promise<void> {
    const body = await this.#store.read(batch);
    if (!body) return this.#end(batch, 0);
    const begunAt = performance.now();
    const batchId = batchIdOf(batch.stem);
    const answer = await this.#transport.sendBatch({ batchId, receiptCount: batch.count, body });
    this.#caller.measure("request_s", (performance.now() - begunAt) / 1_000);
    const isDivisible = batch.count > 1 || answer.isGateways;
    if (answer.kind === "retried" || (answer.kind === "split" && !isDivisible)) {
      // After a try, and by the clock of whoever answered: this machine's may be wrong.
      if (!this.#isClosed && this.#store.isExpired(batch, answer.dateMs || Date.now())) {
        const detail = `waited in the spool for over ${this.#limits.spoolHoursMax} hours`;
        return this.#rejectAll(batch, body, { code: "expired", detail });
      }
      return this.#retry(batch, answer, begunAt);
    }
    this.#pace.succeed();
    const { acknowledgement } = answer;
    if (!acknowledgement) return this.#takeApart(batch, body, answer);
    const receiptIds = receiptIdsOf(body);
    await this.#caller.acknowledge({ batchId, receiptIds, acknowledgement, body });
    for (const receiptId of receiptIds) this.#settlers.settle(receiptId, undefined);
    return this.#end(batch, batch.count);
  }

  #retry(batch: SealedBatch, answer: Answer, begunAt: number): void {
    if (this.#isClosed) {
      this.#again(batch, 0);
      return;
    }
    const pauseMs = this.#pace.fail(begunAt, answer.retryAfterMs, ++batch.attempts);
    this.#retries++;
    this.#caller.measure("retries", 1);
    const waitS = (pauseMs / 1_000).toFixed(1);
    const { status, code, detail } = answer;
    // What doesn't pass by itself, such as a wrong address or a proxy's login, is for people.
    const isPassing = status === 0 || status === 408 || status === 429 || status >= 500;
    this.#caller.logger[isPassing ? "warn" : "error"](
      `a batch isn't acknowledged (${code}: ${detail}), next try in ${waitS} s`,
    );
    this.#again(batch, pauseMs);
  }

  #again(batch: SealedBatch, pauseMs: number): void {
    this.#inFlight -= batch.count;
    batch.notBefore = performance.now() + pauseMs;
    this.#sealed.push(batch);
  }

  /** Remove the receipts that the service named, and send the others in new batches. */
  async #takeApart(batch: SealedBatch, body: Uint8Array, answer: Answer): Promise<void> {
    const receipts = receiptsOf(body);
    const faults = new Map(answer.faults.toReversed().map((fault) => [fault.index, fault]));
    const good = receipts.filter((_, index) => !faults.has(index));
    let parts = [good];
    if (good.length === receipts.length) {
      if (answer.kind !== "split" || receipts.length < 2) {
        return this.#rejectAll(batch, body, answer);
      }
      const half = receipts.length >> 1;
      parts = [receipts.slice(0, half), receipts.slice(half)];
    }
    // Stored before the old batch is deleted: a repeated receipt counts once, a lost one never.
    const batches = await this.#sealParts(parts, batch);
    await this.#reject(
      receipts.flatMap((receipt, index) => {
        const fault = faults.get(index);
        return fault ? [rejectionOf(receipt, fault)] : [];
      }),
    );
    for (const { count, bytes } of batches) this.#room.add(count, bytes);
    this.#progress.add(batch.sequence, batches.length);
    this.#sealed.unshift(...batches);
    await this.#end(batch, 0);
  }

  async #sealParts(parts: Uint8Array[][], batch: SealedBatch): Promise<SealedBatch[]> {
    const batches: SealedBatch[] = [];
    try {
      for (const part of parts) {
        // As old as the batch that it comes from.
        const own = newStem(timeMsOf(batch.stem));
        if (part.length) batches.push(await this.#store.seal(part, batch, own));
      }
    } catch (error) {
      for (const { file } of batches) await file?.release();
      throw error;
    }
    return batches;
  }

  async #rejectAll(batch: SealedBatch, body: Uint8Array, reason: Reason): Promise<void> {
    await this.#reject(receiptsOf(body).map((receipt) => rejectionOf(receipt, reason)));
    await this.#store.reject(batch);
    await this.#end(batch, 0);
  }

  async #reject(rejections: readonly Rejection[]): Promise<void> {
    for (const rejection of rejections) this.#settlers.settle(rejection.receiptId, rejection);
    await this.#caller.reject(rejections);
  }

  /** Report receipts in bytes of a spool's file that can't be read. */
  async #reportDamage(detail: string, runs: readonly Uint8Array[]): Promise<void> {
    const rejections = runs.flatMap((receipt) => {
      const ids = receiptIdsIn(receipt);
      return (ids.length ? ids : [""]).map((receiptId) => {
        return { receiptId, code: "damaged", detail, pointer: "", receipt };
      });
    });
    await this.#caller.reject(rejections, "damaged");
  }

  /** Return the receipts that end with this client, because no spool has them. */
  async #unspooled(): Promise<Uint8Array[]> {
    const lost: Uint8Array[] = [];
    for (const list of [this.#sealing, ...this.#lists.all]) {
      await list?.journal?.close();
      if (list && !(list.file && this.#store.spool?.has(list.file.path))) {
        lost.push(...list.receipts);
      }
    }
    for (const batch of new Set([...this.#sealed, ...this.#sending])) {
      if (!(await this.#store.isRetained(batch)) && batch.body) lost.push(...receiptsOf(batch.body));
    }
    return lost;
  }

  async #end(batch: SealedBatch, acknowledged: number): Promise<void> {
    await batch.file?.release();
    this.#inFlight -= batch.count;
    this.#room.add(-batch.count, -batch.bytes);
    if (acknowledged) {
      this.#acknowledged += acknowledged;
      this.#batches++;
      this.#caller.measure("acknowledged", acknowledged);
    }
    this.#progress.end(batch.sequence);
  }

  #logFailure(what: string, error: unknown): void {
    const message = error instanceof Error ? error.message : String(error);
    this.#caller.logger.error(`a batch can't be ${what}, and will be tried again: ${message}`);
  }
}

function rejectionOf(receipt: Uint8Array, { code, detail, pointer = "" }: Reason): Rejection {
  return { receiptId: receiptIdOf(receipt), code, detail, pointer, receipt };
}

function takeDue<T extends { readonly notBefore: number }>(queue: T[], now: number): T | undefined {
  const index = queue.findIndex((task) => task.notBefore <= now);
  return index < 0 ? undefined : queue.splice(index, 1)[0];
}
