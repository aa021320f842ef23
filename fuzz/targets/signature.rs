//! `receipts_fuzz::signature` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| receipts_fuzz::signature::run(input));
