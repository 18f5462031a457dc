//! What the attributes say when they are used wrongly, and that they are quiet when used well.
//!
//! After a deliberate change: `TRYBUILD=overwrite cargo test -p wharf --test ui`, then read the diff.

#[test]
fn ui() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/fail/*.rs");
}
