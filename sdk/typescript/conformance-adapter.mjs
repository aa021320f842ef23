// The adapter of conformance/README.md for this package. Run `npm run build` first.

import { createServer } from "node:http";

import { Client, PemSigner, QueueFullError, ReceiptsError } from "receipts-client";

let client;
let rejected = [];

const routes = {
  async init({ privateKey, clientName, clientVersion, ...options }) {
    rejected = [];
    client = new Client({
      ...options,
      name: clientName,
      version: clientVersion,
      signer: await PemSigner.fromPem(privateKey),
      onRejected: ({ receipt, ...rejection }) => void rejected.push(rejection),
      logger: { warn() {}, error() {} },
    });
    await client.ready();
    return [200, {}];
  },

  async record({ uses }) {
    const receiptIds = [];
    for (const { timestamp, ...use } of uses) {
      try {
        const record = {
          ...use,
          timestamp: timestamp === undefined ? undefined : new Date(timestamp),
        };
        receiptIds.push(await client.record(record));
      } catch (error) {
        if (!(error instanceof QueueFullError)) throw error;
        return [507, { receiptIds, error: "queue_full" }];
      }
    }
    return [200, { receiptIds }];
  },

  flush: async ({ timeoutMs }) => [200, { flushed: await client.flush({ timeoutMs }) }],

  async close() {
    await client.close();
    return [200, {}];
  },

  state: async () => [200, { ...client.state(), rejected }],

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
