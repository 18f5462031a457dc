//! Runs `wharf_fuzz::messages`.
#![cfg_attr(fuzzing, no_main)]

wharf_fuzz::fuzz_target!(messages);
