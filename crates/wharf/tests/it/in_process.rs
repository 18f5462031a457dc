//! Client of a server in the same process, and the principal of its calls.

use wharf::{Client, Endpoint, Era, ErrorKind, Principal, client::ClientBuilder, prelude::*};

/// Returns the id of the caller.
#[tool(scope = "ships:read")]
async fn who(caller: Option<Principal>) -> String {
    caller.map_or_else(|| "nobody".to_owned(), |caller| caller.id().to_owned())
}

fn server() -> Endpoint {
    Server::new("harbour", "1.0.0").tool::<who>().build().unwrap()
}

/// Clients without bytes, for each era.
fn builders() -> [ClientBuilder; 3] {
    [Client::builder(), Client::builder().era(Era::Modern), Client::builder().era(Era::Legacy)]
}

#[tokio::test]
async fn in_process_calls_have_full_access() {
    for builder in builders() {
        let client = builder.connect(server()).await.unwrap();
        assert_eq!(client.tools().all().await.unwrap().len(), 1);
        assert_eq!(client.call_as::<String>("who", ()).await.unwrap(), "nobody");
    }
}

#[tokio::test]
async fn a_principal_has_its_own_scopes() {
    for builder in builders() {
        let alice = Principal::new("alice").with_scope("ships:read");
        let client = builder.principal(alice).connect(server()).await.unwrap();
        assert_eq!(client.call_as::<String>("who", ()).await.unwrap(), "alice");
        let raw = client.request("tools/call", serde_json::json!({"name": "who"})).await.unwrap();
        assert!(raw.get().contains("alice"), "{raw}");
    }
    for builder in builders() {
        let client = builder.principal(Principal::new("bob")).connect(server()).await.unwrap();
        assert!(client.tools().all().await.unwrap().is_empty());
        let error = client.call("who", ()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InsufficientScope, "{error}");
    }
}

/// A proxied call keeps its principal: a proxy does not authenticate callers.
#[tokio::test]
async fn a_reverse_proxy_does_not_grant_loopback_rights() {
    let inner = Client::connect(server()).await.unwrap();
    let proxy = Server::from(inner).build().unwrap();
    let stranger = Principal::new("stranger");
    let client = Client::builder().principal(stranger).connect(proxy).await.unwrap();
    let error = client.call("who", ()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InsufficientScope, "{error}");
}

#[tokio::test]
async fn a_remote_server_does_not_take_a_principal() {
    let builder = Client::builder().principal(Principal::new("alice"));
    let error = builder.connect("tcp://127.0.0.1:1").await.unwrap_err();
    assert!(error.message().contains("only for a server in this process"), "{error}");
}
