//! Checks that the crates build without warnings with the feature sets that users enable, and that a program with one side
//! does not compile the other.

use crate::workspace::Workspace;

/// Feature sets by crate. Features that only enable a dependency share one set. Features that interact (client and
/// server, HTTP and its extensions) are checked alone and in combination.
static SETS: &[(&str, &str)] = &[
    ("wharf-mcp", ""),
    ("wharf-mcp", "http,server"),
    ("wharf-mcp", "logs,server"),
    ("wharf-mcp", "metrics,server"),
    ("wharf-mcp", "client,websocket"),
    ("wharf-mcp", "client,tls"),
    ("wharf-mcp", "auth,client,tls,websocket"),
    ("wharf-mcp", "client,server"),
    ("wharf-mcp", "apps,client"),
    ("wharf-mcp", "apps,server"),
    ("wharf-mcp", "client,http,server"),
    ("wharf-mcp", "metrics"),
    ("wharf-mcp", "client,metrics"),
    ("wharf-mcp", "client,metrics,server"),
    ("wharf-mcp", "otlp"),
    ("wharf-mcp", "otlp,server"),
    ("wharf-mcp", "client,otlp,tls"),
    ("wharf-mcp", "client,otlp,server"),
    ("wharf-mcp", "otel"),
    ("wharf-mcp", "otel,server"),
    ("wharf-mcp", "client,otel"),
    ("wharf-mcp", "server,tls,websocket"),
    ("wharf-mcp", "auth,server"),
    ("wharf-mcp", "auth,client,server"),
    ("wharf-mcp", "oauth-proxy"),
    ("wharf-mcp", "client,oauth-proxy"),
    ("wharf-mcp", "server-card"),
    ("wharf-mcp", "server,server-card"),
    ("wharf-mcp", "client,server-card"),
    ("wharf-mcp", "axum,tower"),
    ("wharf-mcp", "server,skills"),
    ("wharf-mcp", "client,skills"),
    ("wharf-mcp", "contract"),
    ("wharf-mcp", "gateway"),
    ("wharf-mcp", "sqlite"),
    ("wharf-mcp", "redis"),
    ("wharf-mcp", "redis-tls,sqlite"),
    ("wharf-auth", ""),
    ("wharf-auth", "client"),
    ("wharf-auth", "server"),
    ("wharf-auth", "proxy"),
    ("wharf-cli", ""),
    ("wharf-connect", ""),
    ("wharf-connect", "tls"),
    ("wharf-connect", "hyper"),
    ("wharf-extensions", "skills"),
    ("wharf-extensions", "server,skills"),
    ("wharf-extensions", "client,skills"),
    ("wharf-store", ""),
    ("wharf-store", "contract"),
    ("wharf-store", "sqlite"),
    ("wharf-store", "redis"),
    ("wharf-store", "redis-tls"),
    ("wharf-telemetry", ""),
    ("wharf-telemetry", "logs"),
    ("wharf-telemetry", "otel"),
    ("wharf-telemetry", "otlp"),
    ("wharf-telemetry", "otlp,tls"),
    ("wharf-telemetry", "tls"),
    ("wharf-transport", "client"),
    ("wharf-transport", "server"),
    ("wharf-transport", "client,http,tls,websocket"),
    ("wharf-transport", "http,server,tls,websocket"),
];

/// The sets that CI checks: those of most applications, which most conditional code depends on.
static COMMON_SETS: &[(&str, &str)] = &[
    ("wharf-mcp", "server"),
    ("wharf-mcp", "logs,metrics,server"),
    ("wharf-mcp", "client"),
    ("wharf-mcp", "client,http"),
];

/// Feature sets of a program with one side, with the crate of the other side, which it must not compile.
static ONE_SIDED: &[(&str, &str)] =
    &[("client,http", "wharf-server"), ("http,server", "wharf-client")];

/// Checks every set.
pub(crate) fn run(workspace: &Workspace) -> Result<(), String> {
    run_common(workspace)?;
    check(workspace, SETS)
}

/// Checks the sets of most applications.
pub(crate) fn run_common(workspace: &Workspace) -> Result<(), String> {
    check(workspace, COMMON_SETS)?;
    check_sides(workspace)
}

/// Checks that programs with one side do not depend on the crate of the other side.
fn check_sides(workspace: &Workspace) -> Result<(), String> {
    for (features, other_side) in ONE_SIDED {
        let tree = format!(
            "tree --package wharf-mcp --no-default-features --features {features} --edges normal --prefix none"
        );
        let tree = workspace.cargo_output(&tree)?;
        // Without a crate that must be there, the list was not read.
        if !has_package(&tree, "wharf-wire") || has_package(&tree, other_side) {
            return Err(format!(
                "wharf-mcp with [{features}] must depend on wharf-wire, not on {other_side}"
            ));
        }
    }
    Ok(())
}

/// Returns whether a line of `cargo tree` names the package.
fn has_package(tree: &str, package: &str) -> bool {
    tree.lines().any(|line| line.split(' ').next() == Some(package))
}

/// Checks the library and the programs of a crate with each set; warnings are errors.
fn check(workspace: &Workspace, sets: &[(&str, &str)]) -> Result<(), String> {
    for (package, features) in sets {
        // Clippy reports the compiler's warnings too, and its flags do not rebuild the dependencies.
        let with =
            if features.is_empty() { String::new() } else { format!(" --features {features}") };
        let targets = if *package == "wharf-cli" { "--bins" } else { "--lib" };
        let check = format!(
            "clippy --quiet --package {package} --no-default-features{with} {targets} -- -D warnings"
        );
        workspace.cargo(&check).map_err(|why| format!("with the features [{features}]: {why}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_found_by_its_whole_name() {
        let tree = "wharf-mcp v0.1.0 (/wharf)\nwharf-server v0.1.0 (/server)\n";
        assert!(has_package(tree, "wharf-server"));
        assert!(!has_package(tree, "wharf-serve") && !has_package(tree, "server"));
    }
}
