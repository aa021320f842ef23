/// <reference lib="esnext.disposable" preserve="true" />
// Client of Receipts: signs uses of content, batches them, and delivers them.
//
// - `Client` records uses and delivers them in the background.
// - `PemSigner`, `CallbackSigner` and `CryptoKeySigner` hold the key.
// - `Webhook` verifies receipts that a publisher gets at an address of its own.
// - `canonicalize` writes the canonical form (RFC 8785) that signatures are over.

export type { AcknowledgedBatch, Acknowledgement } from "./acknowledgement.js";
export { canonicalize, parse } from "./canonical.js";
export type { ClientOptions } from "./client.js";
export { Client } from "./client.js";
export type { Eventual } from "./crypto/backend.js";
export type { State } from "./delivery.js";
export type { Entry } from "./entries.js";
export type { Rejection } from "./errors.js";
export {
  CanonicalError,
  ClosedError,
  KeyError,
  OptionsError,
  QueueFullError,
  ReceiptsError,
  RejectedError,
  RequestError,
  SpoolError,
  UseError,
} from "./errors.js";
export type { Hooks, Metric } from "./hooks.js";
export type { Algorithm } from "./key.js";
export type { Logger } from "./logger.js";
export type { Limits } from "./options.js";
export { DEFAULT_LIMITS } from "./options.js";
export type { Explanation, Outcome } from "./outcomes.js";
export type { Purpose, Receipt } from "./receipt.js";
export type { CryptoKeyLike, Signer } from "./signers.js";
export { CallbackSigner, CryptoKeySigner, PemSigner } from "./signers.js";
export type { Fetch } from "./transport.js";
export type { Use } from "./use.js";
export type { WebhookOptions } from "./webhook.js";
export { Webhook, WebhookError } from "./webhook.js";
