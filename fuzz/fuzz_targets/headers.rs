//! Runs `wharf_fuzz::headers`.
#![cfg_attr(fuzzing, no_main)]

wharf_fuzz::fuzz_target!(headers);
