//! Server that requires authorization: separate scopes for reading and writing notes.
//!
//! ```text
//! cargo run -p protected                                      # accepts one static token, which it prints
//! cargo run -p protected -- --issuer https://id.example.com   # accepts JWTs of this issuer
//! ```
//!
//! `docs/authorization.md` walks through it.

mod notes;

use wharf::auth::server::{Jwt, StaticToken};
use wharf::prelude::*;

use notes::{Notes, list_notes, read_note, write_note};

/// Default address; `--at ADDRESS` overrides it.
const ADDRESS: &str = "127.0.0.1:8000";

#[tokio::main]
async fn main() -> wharf::Result<()> {
    let address = option("--at").unwrap_or_else(|| ADDRESS.to_owned());
    // Required audience of tokens: the URL at which clients reach this server.
    let audience = option("--audience").unwrap_or_else(|| format!("http://{address}/mcp"));
    let server = Server::new("notes", "1.0.0")
        .state(Notes::default())
        .tool::<list_notes>()
        .tool::<read_note>()
        .tool::<write_note>();
    let server = match option("--issuer") {
        // The keys are fetched from the issuer, and again when they change.
        Some(issuer) => {
            server.auth(Jwt::issuer(issuer).audience(audience).scopes_supported(["notes:read"]))
        }
        // One static token for all clients: for development only.
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

/// Returns the value of a command-line option.
fn option(name: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != name).nth(1)
}
