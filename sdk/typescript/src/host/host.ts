import type { Spool, SpoolSettings } from "../spool/spool.js";
import type { Fetch } from "../transport.js";

/** The parts of a runtime that not every runtime has. */
export interface Host {
  environment(name: string): string | undefined;
  readText(path: string): Promise<string>;
  readonly fetch: Fetch;
  /** Compress (RFC 1952); `undefined` if the runtime can't. */
  gzip(data: Uint8Array): Promise<Uint8Array | undefined>;
  openSpool(directory: string, settings: SpoolSettings): Promise<Spool>;
  /** Call `drain` when the process has nothing else to do; return a function that cancels it. */
  beforeExit(drain: () => Promise<unknown>): () => void;
}
