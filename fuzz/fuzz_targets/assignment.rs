#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tenure::bad_bytes::assignment(bytes));
