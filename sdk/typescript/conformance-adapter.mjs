// The adapter of conformance/README.md for this package. Run `npm run build` first.

import { Console } from "node:console";
import { createServer } from "node:http";

import { Client, PemSigner, QueueFullError, ReceiptsError, SpoolError } from "receipts-client";

// Standard error is the log, and standard output stays empty.
globalThis.console = new Console(process.stderr, process.stderr);

const UNSUPPORTED = {};

let client;
let reports;

const routes = {
  capabilities: async () => [200, { unsupported: UNSUPPORTED }],

  async init({ privateKey, clientName, clientVersion, ...options }) {
    const signer = await PemSigner.fromPem(privateKey);
    const { rejected, acknowledgements, failed, metrics } = (reports = {
      rejected: [],
      acknowledgements: [],
      failed: [],
      metrics: {},
    });
    client = new Client({
      ...options,
      name: clientName,
      version: clientVersion,
      signer,
      onRejected: ({ receipt, ...rejection }) => void rejected.push(rejection),
      onAcknowledged: ({ body, ...batch }) => void acknowledgements.push(batch),
      onFailed: (error) => void failed.push(error.message),
      onMetric: (name, value) => void (metrics[name] = (metrics[name] ?? 0) + value),
    });
    await client.ready();
    return [200, {}];
  },

  async record({ uses, await: isAwaited = true }) {
    const receiptIds = [];
    for (const { timestamp, ...use } of uses) {
      const recorded = client.record({
        ...use,
        timestamp: timestamp === undefined ? undefined : new Date(timestamp),
      });
      if (!isAwaited) continue;
      try {
        receiptIds.push(await recorded);
      } catch (error) {
        if (error instanceof QueueFullError) return [507, { receiptIds, error: "queue_full" }];
        if (error instanceof SpoolError) return [507, { receiptIds, error: "spool_failed" }];
        throw error;
      }
    }
    return [200, isAwaited ? { receiptIds } : {}];
  },

  flush: async ({ timeoutMs }) => [200, { flushed: await client.flush({ timeoutMs }) }],

  async close() {
    await client.close();
    return [200, {}];
  },

  state: async () => [200, { ...client.state(), ...reports }],

  kill: async () => process.kill(process.pid, "SIGKILL"),
};

const server = createServer(async (request, response) => {
  let text = "";
  for await (const part of request.setEncoding("utf8")) text += part;
  let answer;
  try {
    answer = await routes[request.url.slice(1)](text ? JSON.parse(text) : {});
  } catch (error) {
    answer = [error instanceof ReceiptsError ? 400 : 500, { error: error.message }];
  }
  response.writeHead(answer[0], { "Content-Type": "application/json" });
  response.end(JSON.stringify(answer[1]));
});
server.listen(Number(process.env.PORT), "127.0.0.1");
