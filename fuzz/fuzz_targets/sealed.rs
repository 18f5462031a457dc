//! Runs `wharf_fuzz::sealed`.
#![cfg_attr(fuzzing, no_main)]

wharf_fuzz::fuzz_target!(sealed);
