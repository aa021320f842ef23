//! Takes receipts over HTTP and acknowledges only what the log holds durably.
