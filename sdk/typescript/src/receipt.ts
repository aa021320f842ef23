import type { Algorithm } from "./key.js";

/** The purposes of a use. */
export const PURPOSES = ["training", "inference", "research"] as const;

/** A purpose of a use. */
export type Purpose = (typeof PURPOSES)[number];

/** A signed receipt (docs/receipt-format.md). */
export interface Receipt {
  readonly version: string;
  readonly receiptId: string;
  readonly timestamp: string;
  readonly content: {
    readonly entryId: string;
    readonly url: string;
    readonly contentHash: string;
    readonly publisher: string;
  };
  readonly client: {
    readonly id: string;
    readonly name: string;
    readonly version: string;
    readonly organization: string;
    readonly publicKey: string;
  };
  readonly usage: {
    readonly purpose: Purpose;
    readonly context: string;
    readonly datasetId?: string;
    readonly modelId?: string;
    readonly queryId?: string;
    readonly sessionId?: string;
    readonly studyId?: string;
    readonly researcherId?: string;
  };
  readonly signature: string;
  readonly signatureAlgorithm: Algorithm;
}
