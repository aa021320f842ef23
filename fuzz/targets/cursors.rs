//! `receipts_fuzz::cursors` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| receipts_fuzz::cursors::run(input));
