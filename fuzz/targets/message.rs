//! `receipts_fuzz::message` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| receipts_fuzz::message::run(input));
