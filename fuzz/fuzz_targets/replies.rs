//! Runs `wharf_fuzz::replies`.
#![cfg_attr(fuzzing, no_main)]

wharf_fuzz::fuzz_target!(replies);
