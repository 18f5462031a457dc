//! Rule: a mutex that ignores poison is a `Lock` of wharf-model.

use super::{
    repository::Repository,
    source::{SourceFile, line_of, position_in, words},
};

/// The one file that ignores poison.
const LOCK: &str = "crates/wharf-model/src/lock.rs";
/// The command line does not depend on wharf-model.
const WITHOUT_MODEL: &str = "crates/wharf-cli/";

pub(super) fn check(repository: &Repository) -> Vec<String> {
    let in_crates = repository.shipped_sources().filter(|file| file.path.starts_with("crates/"));
    in_crates
        .filter(|file| file.path != LOCK && !file.path.starts_with(WITHOUT_MODEL))
        .filter_map(ignored_poison)
        .collect()
}

/// Reads and writes of a `RwLock`, and waits of a `Condvar`, have no type of their own.
fn ignored_poison(file: &SourceFile) -> Option<String> {
    let tight: String = file.code.split_whitespace().collect();
    if !tight.contains("lock().unwrap_or_else(PoisonError::into_inner)") {
        return None;
    }
    let word = words(&file.code).find(|word| *word == "PoisonError")?;
    let line = line_of(&file.code, position_in(&file.code, word));
    Some(format!("{}:{line} ignores poison: use `wharf_model::Lock` instead of `Mutex`", file.path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> usize {
        check(&Repository::of_sources(&[(path, text)])).len()
    }

    #[test]
    fn a_mutex_that_ignores_poison_is_found() {
        let text = "fn a() { b.lock()\n    .unwrap_or_else(PoisonError::into_inner) }";
        assert_eq!(problems("crates/a/src/b.rs", text), 1);
        for path in [LOCK, "crates/wharf-cli/src/b.rs", "crates/a/tests/b.rs"] {
            assert_eq!(problems(path, text), 0, "{path}");
        }
        let waits = "fn a() { woken.unwrap_or_else(PoisonError::into_inner).0 }";
        assert_eq!(problems("crates/a/src/b.rs", waits), 0);
    }
}
