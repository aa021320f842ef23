//! The domain: receipts as JSON, canonical bytes, hashes, keys, signatures, verdicts. Pure and synchronous.
