import type { Algorithm } from "./key.js";

/** The purposes of a use. */
export const PURPOSES = ["training", "inference", "research"] as const;

/** A purpose of a use. */
export type Purpose = (typeof PURPOSES)[number];

/** The optional members of `usage`. */
export const USAGE_EXTRAS = [
  "datasetId",
  "modelId",
  "queryId",
  "sessionId",
  "studyId",
  "researcherId",
] as const;

/** The name of an optional member of `usage`. */
export type UsageExtra = (typeof USAGE_EXTRAS)[number];

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
  } & Readonly<Partial<Record<UsageExtra, string>>>;
  readonly signature: string;
  readonly signatureAlgorithm: Algorithm;
}
