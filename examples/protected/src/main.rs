//! Notes that not everybody may read, and fewer may write.
//!
//! ```text
//! cargo run -p protected                                      # who has the token it prints may read
//! cargo run -p protected -- --issuer https://id.example.com   # who signed in there may do what they agreed to
//! ```
//!
//! `docs/authorization.md` walks through it.

mod notes;

use wharf::auth::server::{Jwt, StaticToken};
use wharf::prelude::*;

use notes::{Notes, list_notes, read_note, write_note};

/// Where it serves, unless `--at ADDRESS` says otherwise.
const ADDRESS: &str = "127.0.0.1:8000";

#[tokio::main]
async fn main() -> wharf::Result<()> {
    let address = option("--at").unwrap_or_else(|| ADDRESS.to_owned());
    // What tokens must be for: the address at which clients reach this server.
    let audience = option("--audience").unwrap_or_else(|| format!("http://{address}/mcp"));
    let server = Server::new("notes", "1.0.0")
        .state(Notes::default())
        .tool::<list_notes>()
        .tool::<read_note>()
        .tool::<write_note>();
    let server = match option("--issuer") {
        // This is all that protection takes. Keys are fetched from the issuer, and fetched again when they change.
        Some(issuer) => {
            server.auth(Jwt::issuer(issuer).audience(audience).scopes_supported(["notes:read"]))
        }
        // One token for everybody: for development only, on this machine only.
        None => {
            let token = option("--token").unwrap_or_else(|| "let-me-in".to_owned());
            eprintln!("notes: Authorization: Bearer {token}");
            server
                .auth(StaticToken::new(token, Principal::new("developer").with_scope("notes:read")))
        }
    };
    eprintln!("notes: serving http://{address}/mcp");
    server.serve_http(address).await
}

/// What follows an option on the command line.
fn option(name: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != name).nth(1)
}
