//! `receipts_fuzz::verdicts` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| receipts_fuzz::verdicts::run(input));
