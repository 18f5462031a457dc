//! Runs `wharf_fuzz::configs`.
#![cfg_attr(fuzzing, no_main)]

wharf_fuzz::fuzz_target!(configs);
