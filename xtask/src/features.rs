//! Whether the crates build without a warning with the features that users take.

use crate::workspace::Workspace;

/// Crates, each with a set of features. Those that only switch a crate of their own on, and change nothing else, are
/// together in one set; those that meet in one place (a client and a server, HTTP and what is on top of it) stand alone
/// and beside each other.
static SETS: &[(&str, &str)] = &[
    ("wharf-mcp", ""),
    ("wharf-mcp", "server"),
    ("wharf-mcp", "http,server"),
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

/// Checks each set, with what is a warning as an error.
pub(crate) fn run(workspace: &Workspace) -> Result<(), String> {
    for (package, features) in SETS {
        // Clippy says what the compiler says, and takes its flags without building every dependency anew.
        let with =
            if features.is_empty() { String::new() } else { format!(" --features {features}") };
        let check = format!(
            "clippy --quiet --package {package} --no-default-features{with} --lib -- -D warnings"
        );
        workspace.cargo(&check).map_err(|why| format!("with the features [{features}]: {why}"))?;
    }
    Ok(())
}
