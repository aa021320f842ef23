//! `receipts_fuzz::parse` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| receipts_fuzz::parse::run(input));
