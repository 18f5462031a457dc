//! Runs `wharf_fuzz::front_matter`.
#![cfg_attr(fuzzing, no_main)]

wharf_fuzz::fuzz_target!(front_matter);
