//! Tests Wharf's client with protected servers of other SDKs.

use wharf::{Client, args};
use wharf_auth::client::Auth;

use crate::support::LIMIT;
use crate::support::authorization::AuthorizationServer;
use crate::support::program::Program;
use crate::support::user::TestUser;

/// Defines one test per server and era.
macro_rules! servers {
    ($($test:ident: $script:literal $revision:literal $steps_up:literal;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                let test = get_in($script, $revision, $steps_up);
                tokio::time::timeout(LIMIT, test).await.expect("it ends in time");
            }
        )*
    };
}

servers! {
    at_typescript2_legacy: "servers/protected.mjs" "2025-11-25" true;
    at_typescript2_modern: "servers/protected.mjs" "2026-07-28" true;
    at_python_legacy: "servers/protected.py" "2025-11-25" false;
    at_python_modern: "servers/protected.py" "2026-07-28" false;
}

async fn get_in(script: &str, revision: &str, steps_up: bool) {
    let issuer = AuthorizationServer::start().await;
    let mut server = Program::start(script, &[&issuer.issuer]);
    let resource = format!("http://{}", server.line_after("http://").await);
    server.release_connection();
    let ada = TestUser::at(&issuer);
    let auth = Auth::code(ada.clone()).scopes(["files:read"]);
    let builder = Client::builder().protocol_version(revision.parse().unwrap()).auth(auth);
    let client = builder.connect(resource.as_str()).await.unwrap();
    let tool_text: String = client.call_as("whoami", args! {}).await.unwrap();
    assert_eq!(tool_text, "ada: files:read");
    assert_eq!(ada.asked("resource"), [resource.as_str()]);
    if steps_up {
        let tool_text: String = client.call_as("write_file", args! { name: "log" }).await.unwrap();
        assert_eq!(tool_text, "log, as ada wrote it");
        let asked = ["files:read offline_access", "files:read offline_access files:write"];
        assert_eq!(ada.asked("scope"), asked);
    }
}
