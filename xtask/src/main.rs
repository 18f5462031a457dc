//! Development tasks of Wharf.
fn main() {}
