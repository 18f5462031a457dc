//! Runs `wharf_fuzz::lines`.
#![cfg_attr(fuzzing, no_main)]

wharf_fuzz::fuzz_target!(lines);
