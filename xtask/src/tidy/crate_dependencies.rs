//! Rule: the crates depend on each other only along the arrows of ARCHITECTURE.md.

use super::repository::{Repository, TextFile};

/// Crates, each with those of the workspace that it may depend on outside of tests.
const DEPENDENCIES: [(&str, &[&str]); 15] = [
    ("wharf-model", &[]),
    ("wharf-macros", &[]),
    ("wharf-schema", &["wharf-model"]),
    ("wharf-wire", &["wharf-model"]),
    ("wharf-connect", &["wharf-model"]),
    ("wharf-store", &["wharf-connect", "wharf-model"]),
    ("wharf-auth", &["wharf-connect", "wharf-model"]),
    ("wharf-telemetry", &["wharf-connect", "wharf-model"]),
    ("wharf-client", &["wharf-model", "wharf-schema"]),
    ("wharf-server", &["wharf-model", "wharf-schema", "wharf-store"]),
    ("wharf-extensions", &["wharf-client", "wharf-model", "wharf-server"]),
    ("wharf-gateway", &["wharf-client", "wharf-model"]),
    ("wharf-transport", &["wharf-client", "wharf-connect", "wharf-model", "wharf-wire"]),
    (
        "wharf",
        &[
            "wharf-auth",
            "wharf-client",
            "wharf-connect",
            "wharf-extensions",
            "wharf-gateway",
            "wharf-macros",
            "wharf-model",
            "wharf-server",
            "wharf-store",
            "wharf-telemetry",
            "wharf-transport",
            "wharf-wire",
        ],
    ),
    ("wharf-cli", &["wharf"]),
];

pub(super) fn check(repository: &Repository) -> Vec<String> {
    let crates = repository.manifests.iter().filter_map(|manifest| {
        let name = manifest.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
        Some((name, manifest))
    });
    crates.flat_map(|(name, manifest)| problems_of(name, manifest)).collect()
}

fn problems_of(name: &str, manifest: &TextFile) -> Vec<String> {
    let Some((_, allowed)) = DEPENDENCIES.iter().find(|row| row.0 == name) else {
        return vec![format!("{name} has no row in xtask/src/tidy/crate_dependencies.rs")];
    };
    let found = dependencies(&manifest.text);
    let extra = found.filter(|it| it.starts_with("wharf") && !allowed.contains(it));
    extra.map(|it| format!("{name} must not depend on {it}")).collect()
}

/// Returns the names of all dependencies but those of tests, for every platform: keys of a table of dependencies, names of
/// tables of one dependency, and packages under another name.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let mut section = "";
    manifest
        .lines()
        .flat_map(move |line| {
            if let Some(header) = line.strip_prefix('[') {
                section = header.split(']').next().unwrap_or_default();
                let (table, one) = section.rsplit_once('.').unwrap_or_default();
                return [Some(one).filter(|_| holds_dependencies(table)), None];
            }
            let inside = holds_dependencies(section)
                || section.rsplit_once('.').is_some_and(|(table, _)| holds_dependencies(table));
            let key = line.split([' ', '=', '.']).next().map(|key| key.trim_matches('"'));
            let package = line.split_once("package").and_then(|(_, value)| value.split('"').nth(1));
            [key, package].map(|it| it.filter(|_| inside))
        })
        .flatten()
}

/// Returns whether the table holds dependencies: of every platform or of one (`target.….dependencies`).
fn holds_dependencies(table: &str) -> bool {
    let last = table.rsplit('.').next();
    matches!(last, Some("dependencies" | "build-dependencies"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(name: &str, text: &str) -> Vec<String> {
        let path = format!("crates/{name}/Cargo.toml");
        problems_of(name, &TextFile { path, text: text.to_owned() })
    }

    #[test]
    fn a_dependency_that_is_not_allowed_is_found() {
        for forbidden in [
            "[dependencies]\nwharf-model = {}\nwharf-wire.workspace = true\nserde = \"1\"",
            "[target.'cfg(unix)'.dependencies]\nwharf-wire = {}",
            "[target.\"cfg(any(a, b))\".build-dependencies]\nwharf-wire = {}",
            "[dependencies.wharf-wire]\nworkspace = true",
            "[dependencies]\nwire = { path = \"a\", package = \"wharf-wire\" }",
            "[dependencies.wire]\npackage = \"wharf-wire\"",
        ] {
            let expected = ["wharf-store must not depend on wharf-wire"];
            assert_eq!(problems("wharf-store", forbidden), expected, "{forbidden}");
        }
        let allowed = "[package]\nname = \"wharf-store\"\n[dependencies]\nwharf-model = {}\n\
                       [dev-dependencies]\nwharf-server = {}\n[dev-dependencies.wharf-wire]\n\
                       [target.'cfg(unix)'.dev-dependencies]\nwharf = {}";
        assert_eq!(problems("wharf-store", allowed), [""; 0]);
    }

    #[test]
    fn a_crate_without_a_row_is_found() {
        assert_eq!(problems("wharf-new", "").len(), 1);
    }
}
