import type { Logger } from "../logger.js";
import type { Spool } from "../spool/spool.js";

/** The parts of a runtime that not every runtime has. */
export interface Host {
  environment(name: string): string | undefined;
  readText(path: string): Promise<string>;
  openSpool(
    directory: string,
    settings: { syncIntervalMs: number; logger: Logger },
  ): Promise<Spool>;
  /** Call `drain` when the process has nothing else to do; return a function that cancels it. */
  beforeExit(drain: () => Promise<unknown>): () => void;
}
