// A gateway in memory, for tests of programs that use this package.

import type { Receipt } from "./receipt.js";
import type { Fetch } from "./transport.js";

const utf8Text = new TextDecoder();

/**
 * A gateway that accepts every batch, and verifies nothing. Hand `url` and `fetch` to the client:
 *
 *     const gateway = new FakeGateway();
 *     const client = new Client({ url: gateway.url, fetch: gateway.fetch, ... });
 */
export class FakeGateway {
  readonly url = "https://gateway.invalid";
  /** The receipts that arrived. */
  readonly receipts: Receipt[] = [];
  /** Answers of the next requests, before batches are accepted again. */
  readonly answers: Response[] = [];

  readonly fetch = (async (_url: unknown, init?: { body?: unknown }) => {
    const answer = this.answers.shift();
    if (answer) return answer;
    const batch = JSON.parse(utf8Text.decode(init?.body as Uint8Array)) as {
      batchId: string;
      receipts: Receipt[];
    };
    this.receipts.push(...batch.receipts);
    return Response.json({ batchId: batch.batchId, status: "queued" }, { status: 202 });
  }) as Fetch;
}
