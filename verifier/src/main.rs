//! `receipts-verifier`: the verifier alone. The embedded log belongs to one process, so until the log is a server's
//! this binary says so; `receipts up` runs the same library.
fn main() {}
