//! `receipts_fuzz::directory` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| receipts_fuzz::directory::run(input));
