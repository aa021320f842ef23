import type { Spool, SpoolSettings } from "../spool/spool.js";

/** The parts of a runtime that not every runtime has. */
export interface Host {
  environment(name: string): string | undefined;
  readText(path: string): Promise<string>;
  openSpool(directory: string, settings: SpoolSettings): Promise<Spool>;
  /** Call `drain` when the process has nothing else to do; return a function that cancels it. */
  beforeExit(drain: () => Promise<unknown>): () => void;
}
