/** Base of all errors of this package. */
export class ReceiptsError extends Error {
  override readonly name: string = "ReceiptsError";
}

/** A value without a canonical form. The message says why. */
export class CanonicalError extends ReceiptsError {
  override readonly name = "CanonicalError";
}

/** Options that a client can't have. The message says which one to change. */
export class OptionsError extends ReceiptsError {
  override readonly name = "OptionsError";
}

/** A key that can't be read, or is of another kind. */
export class KeyError extends ReceiptsError {
  override readonly name = "KeyError";
}

/** A use that can't become a receipt. The message says which member to change. */
export class UseError extends ReceiptsError {
  override readonly name = "UseError";
}

/** The spool can't be opened or written. `cause` has the reason. */
export class SpoolError extends ReceiptsError {
  override readonly name = "SpoolError";
}

/**
 * As many receipts wait for their acknowledgement as the client may hold. The use wasn't recorded:
 * record it again later, or raise `queueReceiptsMax` and `queueBytesMax`.
 */
export class QueueFullError extends ReceiptsError {
  override readonly name = "QueueFullError";
}

/** The client is closed. The use wasn't recorded, or isn't known to be acknowledged. */
export class ClosedError extends ReceiptsError {
  override readonly name = "ClosedError";
}

/** A query for outcomes or an explanation that failed. */
export class RequestError extends ReceiptsError {
  override readonly name = "RequestError";
  /** HTTP status, or 0 if there was no answer. */
  readonly status: number;

  constructor(status: number, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.status = status;
  }
}

/** A receipt that the service refused, or that this client gave up. */
export interface Rejection {
  /** Empty if it can't be read. */
  readonly receiptId: string;
  /**
   * The service's problem code; `expired` for a receipt that the spool retained longer than
   * `spoolHoursMax`; `undelivered` for one that is in no spool when the client is closed; `damaged`
   * for one whose file can't be read.
   */
  readonly code: string;
  readonly detail: string;
  /** JSON Pointer (RFC 6901) of the faulty member within the receipt; may be empty. */
  readonly pointer: string;
  /** The signed receipt in canonical form; if it is damaged, the bytes around it in its file. */
  readonly receipt: Uint8Array;
}

/** The service refused the receipt that `submit` waited for. */
export class RejectedError extends ReceiptsError {
  override readonly name = "RejectedError";
  readonly rejection: Rejection;

  constructor(rejection: Rejection) {
    super(`${rejection.code} ${rejection.pointer}: ${rejection.detail}`);
    this.rejection = rejection;
  }
}
