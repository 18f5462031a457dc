//! Runs `wharf_fuzz::challenges`.
#![cfg_attr(fuzzing, no_main)]

wharf_fuzz::fuzz_target!(challenges);
