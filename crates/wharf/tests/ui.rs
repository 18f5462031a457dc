//! What the attributes say when they are used wrongly, and that they are quiet when used well.
//!
//! After a deliberate change: `TRYBUILD=overwrite cargo test -p wharf-mcp --test ui --all-features`, then read the diff.

// Modules of this test, not cases of trybuild's: with those it would build instead of check.
#[path = "ui/pass/everything.rs"]
mod everything;
#[path = "ui/pass/renamed.rs"]
mod renamed;
#[path = "ui/pass/shadowed.rs"]
mod shadowed;

#[test]
fn valid_macro_use_compiles_without_warnings() {
    everything::main();
    renamed::main();
    shadowed::main();
}

#[test]
fn invalid_macro_use_has_clear_errors() {
    trybuild::TestCases::new().compile_fail("tests/ui/fail/*.rs");
}
