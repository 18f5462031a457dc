//! Compile errors of the attributes in invalid use, and the absence of warnings in valid use.
//!
//! After a deliberate change: `TRYBUILD=overwrite cargo test -p wharf-compile-fail`, then read the diff, then run it
//! again without `TRYBUILD`. The tests are a separate package, so that trybuild builds Wharf with its default features
//! and few dependencies.

// Modules of this test instead of trybuild cases: for passing cases trybuild would build instead of check.
#[path = "pass/everything.rs"]
mod everything;
#[path = "pass/renamed.rs"]
mod renamed;
#[path = "pass/shadowed.rs"]
mod shadowed;

#[test]
fn valid_macro_use_compiles_without_warnings() {
    everything::main();
    renamed::main();
    shadowed::main();
}

#[test]
fn invalid_macro_use_has_clear_errors() {
    trybuild::TestCases::new().compile_fail("fail/*.rs");
}
