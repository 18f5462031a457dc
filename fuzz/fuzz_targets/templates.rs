//! Runs `wharf_fuzz::templates`.
#![cfg_attr(fuzzing, no_main)]

wharf_fuzz::fuzz_target!(templates);
