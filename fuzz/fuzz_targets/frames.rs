//! Runs `wharf_fuzz::frames`.
#![cfg_attr(fuzzing, no_main)]

wharf_fuzz::fuzz_target!(frames);
