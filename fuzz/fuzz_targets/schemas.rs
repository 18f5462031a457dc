//! Runs `wharf_fuzz::schemas`.
#![cfg_attr(fuzzing, no_main)]

wharf_fuzz::fuzz_target!(schemas);
