// Node, and what is compatible with it: Deno and Bun.

import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { gzip } from "node:zlib";

import { openSpool } from "../spool/slot.js";
import type { Host } from "./host.js";

const isNode = !process.versions["bun"] && !("Deno" in globalThis);
const drains = new Set<() => Promise<unknown>>();

export const host: Host = {
  environment: (name) => process.env[name],
  readText: (path) => readFile(path, "utf8"),
  fetch(url, init) {
    if (!isNode || !(init?.body instanceof Uint8Array)) return globalThis.fetch(url, init);
    // Node's fetch repeats a request after a 421, at times with an empty body, but no stream's.
    const body = new Blob([init.body]).stream();
    const headers = { ...init.headers, "Content-Length": String(init.body.length) };
    return globalThis.fetch(url, { ...init, headers, body, duplex: "half" } as typeof init);
  },

  gzip: promisify<Uint8Array, Uint8Array>(gzip),
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
