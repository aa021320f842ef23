// Node, and what is compatible with it: Deno and Bun.

import { readFile } from "node:fs/promises";

import { openSpool } from "../spool/slot.js";
import type { Host } from "./host.js";

const drains = new Set<() => Promise<unknown>>();

export const host: Host = {
  environment: (name) => process.env[name],
  readText: (path) => readFile(path, "utf8"),
  openSpool,

  beforeExit(drain) {
    if (!drains.size) process.on("beforeExit", drainAll);
    drains.add(drain);
    return () => {
      drains.delete(drain);
      if (!drains.size) process.off("beforeExit", drainAll);
    };
  },
};

function drainAll(): void {
  // The process continues as long as a drain has something to wait for.
  for (const drain of [...drains]) void drain();
}
