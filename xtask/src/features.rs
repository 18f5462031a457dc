//! Checks that the crates build without warnings with the feature sets that users enable.

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
    ("wharf-mcp", "server,tls,websocket"),
    ("wharf-mcp", "auth,server"),
    ("wharf-mcp", "auth,client,server"),
    ("wharf-mcp", "oauth-proxy"),
    ("wharf-mcp", "client,oauth-proxy"),
    ("wharf-mcp", "axum,tower"),
    ("wharf-mcp", "contract"),
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
    ("wharf-store", ""),
    ("wharf-store", "contract"),
    ("wharf-store", "sqlite"),
    ("wharf-store", "redis"),
    ("wharf-store", "redis-tls"),
    ("wharf-telemetry", ""),
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

/// Checks every set.
pub(crate) fn run(workspace: &Workspace) -> Result<(), String> {
    run_common(workspace)?;
    check(workspace, SETS)
}

/// Checks the sets of most applications.
pub(crate) fn run_common(workspace: &Workspace) -> Result<(), String> {
    check(workspace, COMMON_SETS)
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
