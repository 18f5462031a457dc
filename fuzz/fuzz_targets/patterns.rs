//! Runs `wharf_fuzz::patterns`.
#![cfg_attr(fuzzing, no_main)]

wharf_fuzz::fuzz_target!(patterns);
