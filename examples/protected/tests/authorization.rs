//! Runs the example with a static token and with an authorization server.
#![allow(clippy::unwrap_used, clippy::expect_used)]

/// Authorization server of `tests/auth`, which `cargo xtask foreign` installs, and a user who consents to everything.
#[allow(dead_code, reason = "more of it is needed there")]
#[path = "../../../tests/auth/support/mod.rs"]
mod support;

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use wharf::{Client, args};
use wharf_auth::client::Auth;

use support::authorization::AuthorizationServer;
use support::user::TestUser;

#[tokio::test]
async fn static_token_allows_reading_but_not_writing() {
    let server = Example::start(&[]);
    let client = server.connect(Auth::bearer("let-me-in")).await.expect("the token is accepted");
    let tools = client.tools().all().await.expect("the tools are listed");
    let names: Vec<_> = tools.iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(names, ["list_notes", "read_note"]);
    let tide: String =
        client.call_as("read_note", args! { name: "tide" }).await.expect("the note is read");
    assert_eq!(tide, "Low water at noon. (the harbour)");
    let refused = client.call("write_note", args! { name: "tide", text: "none" }).await;
    let refused = refused.expect_err("the token lacks the scope");
    assert!(refused.kind().is_insufficient_scope(), "{refused:?}");

    let stranger =
        server.connect(Auth::bearer("let-me-in-too")).await.expect_err("another token is rejected");
    assert!(stranger.to_string().contains("401"), "{stranger}");
}

#[tokio::test]
async fn logged_in_user_has_the_scopes_that_they_consented_to() {
    let issuer = AuthorizationServer::start().await;
    let server = Example::start(&["--issuer", &issuer.issuer]);
    let ada = TestUser::at(&issuer);
    let client = server.connect(Auth::code(ada.clone())).await.expect("the user consents");
    assert_eq!(ada.asked("scope"), ["notes:read offline_access"]);
    let tide: String =
        client.call_as("read_note", args! { name: "tide" }).await.expect("the note is read");
    assert_eq!(tide, "Low water at noon. (the harbour)");
    let wrote: String = client
        .call_as("write_note", args! { name: "tide", text: "High." })
        .await
        .expect("the user consents to the scope");
    assert_eq!(wrote, format!("{} ada wrote tide", issuer.issuer));
    assert_eq!(ada.visits(), 2);
}

/// Running example; dropping it ends the process.
struct Example {
    process: Child,
    url: String,
}

impl Example {
    fn start(options: &[&str]) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port");
        let process = Command::new(env!("CARGO_BIN_EXE_protected"))
            .args(["--at", &free.to_string()])
            .args(options)
            .stderr(Stdio::null())
            .spawn()
            .expect("the example is built");
        Self { process, url: format!("http://{free}/mcp") }
    }

    /// Connects as soon as the server listens.
    async fn connect(&self, auth: Auth) -> Result<Client, wharf::client::ConnectError> {
        for _ in 0..500 {
            let builder = Client::builder().auth(auth.clone());
            match builder.connect(self.url.as_str()).await {
                Err(error) if error.to_string().contains("refused") => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                ended => return ended,
            }
        }
        panic!("the example does not listen after 10 s");
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
