//! Whether the crates build without a warning with the features that users take.

use crate::workspace::Workspace;

/// Crates, each with a set of features. Those that only switch a crate of their own on, and change nothing else, are
/// together in one set; those that meet in one place (a client and a server, HTTP and what is on top of it) stand alone
/// and beside each other.
static SETS: &[(&str, &str)] = &[
    ("wharf", ""),
    ("wharf", "http"),
    ("wharf", "client"),
    ("wharf", "client,http"),
    ("wharf", "client,websocket"),
    ("wharf", "client,tls"),
    ("wharf", "tls,websocket"),
    ("wharf", "auth"),
    ("wharf", "auth,client"),
    ("wharf", "oauth-proxy"),
    ("wharf", "axum,tower"),
    ("wharf", "sqlite"),
    ("wharf", "redis"),
    ("wharf", "redis-tls,sqlite"),
    ("wharf-auth", ""),
    ("wharf-auth", "client"),
    ("wharf-store", "contract"),
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
