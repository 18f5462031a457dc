//! Rule: each source file begins with a `//!` line that says what it contains.

use super::repository::Repository;

pub(super) fn check(repository: &Repository) -> Vec<String> {
    let sources = repository.sources.iter().filter(|file| file.path.contains("/src/"));
    let bare = sources.filter(|file| !file.text.starts_with("//!"));
    bare.map(|file| {
        format!("{} does not begin with a //! line that says what it contains", file.path)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_header_is_found() {
        let sources = [("a/src/b.rs", "use c;"), ("a/src/d.rs", "//! D."), ("a/tests/e.rs", "")];
        let found = check(&Repository::of_sources(&sources));
        assert!(found.len() == 1 && found[0].starts_with("a/src/b.rs "), "{found:?}");
    }
}
