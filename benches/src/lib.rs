//! Criterion benches and the comparison program, over public APIs.
