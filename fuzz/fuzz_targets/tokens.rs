//! Runs `wharf_fuzz::tokens`.
#![cfg_attr(fuzzing, no_main)]

wharf_fuzz::fuzz_target!(tokens);
