//! Runs `wharf_fuzz::events`.
#![cfg_attr(fuzzing, no_main)]

wharf_fuzz::fuzz_target!(events);
