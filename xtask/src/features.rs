//! Checks that the crates build without warnings with the feature sets that users enable.

use crate::workspace::Workspace;

/// Feature sets by crate. Features that only enable a dependency share one set. Features that interact (client and
/// server, HTTP and its extensions) are checked alone and in combination.
static SETS: &[(&str, &str)] = &[
    ("wharf-mcp", ""),
    ("wharf-mcp", "server"),
    ("wharf-mcp", "http,server"),
    ("wharf-mcp", "logs,server"),
    ("wharf-mcp", "logs,metrics,server"),
    ("wharf-mcp", "client"),
    ("wharf-mcp", "client,http"),
    ("wharf-mcp", "client,websocket"),
    ("wharf-mcp", "client,tls"),
    ("wharf-mcp", "auth,client,tls,websocket"),
    ("wharf-mcp", "client,server"),
    ("wharf-mcp", "client,http,server"),
    ("wharf-mcp", "server,tls,websocket"),
    ("wharf-mcp", "auth,server"),
    ("wharf-mcp", "auth,client,server"),
    ("wharf-mcp", "oauth-proxy"),
    ("wharf-mcp", "axum,tower"),
    ("wharf-mcp", "sqlite"),
    ("wharf-mcp", "redis"),
    ("wharf-mcp", "redis-tls,sqlite"),
    ("wharf-auth", ""),
    ("wharf-auth", "client"),
    ("wharf-store", "contract"),
    ("wharf-transport", "client"),
    ("wharf-transport", "client,http,tls,websocket"),
    ("wharf-transport", "http,server,tls,websocket"),
];

/// Checks each set; warnings are errors.
pub(crate) fn run(workspace: &Workspace) -> Result<(), String> {
    for (package, features) in SETS {
        // Clippy reports the compiler's warnings too, and its flags do not rebuild the dependencies.
        let with =
            if features.is_empty() { String::new() } else { format!(" --features {features}") };
        let check = format!(
            "clippy --quiet --package {package} --no-default-features{with} --lib -- -D warnings"
        );
        workspace.cargo(&check).map_err(|why| format!("with the features [{features}]: {why}"))?;
    }
    Ok(())
}
