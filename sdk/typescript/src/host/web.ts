// A runtime without files, such as Workers.

import { KeyError, SpoolError } from "../errors.js";
import type { Host } from "./host.js";

export const host: Host = {
  environment(name) {
    const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
    return process?.env?.[name];
  },

  async readText() {
    throw new KeyError("this runtime has no files: hand the key's PEM to PemSigner.fromPem");
  },

  // Unbound, it throws in some runtimes.
  fetch: (url, init) => globalThis.fetch(url, init),

  async gzip(data) {
    if (typeof CompressionStream === "undefined") return undefined;
    const packed = new Response(data).body?.pipeThrough(new CompressionStream("gzip"));
    return packed && new Uint8Array(await new Response(packed).arrayBuffer());
  },

  async openSpool() {
    throw new SpoolError("this runtime has no files: leave spoolDir out");
  },

  beforeExit: () => () => {},
};
