//! Login of Wharf's client at a FastMCP server that is its own authorization server. The token endpoint of Python's `mcp`
//! requires the client id in the form, regardless of the client authentication.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use serde_json::{Value, json};
use wharf::{Client, Error, model::BoxFuture};
use wharf_auth::{
    client::{
        Auth, AuthorizationRequest, MemoryTokenStore, RedirectParams, TokenStore, UserAgent,
        UserAgentSession,
    },
    fetch::Fetch,
};

use crate::support::{LIMIT, program::Program};

const CALLBACK: &str = "http://127.0.0.1:7/callback";

/// Browser of the user: the server consents at once, so its first response is the redirect.
#[derive(Clone, Default)]
struct Browser(Arc<Mutex<usize>>);

impl UserAgent for Browser {
    fn prepare(&self, _: Option<&str>) -> BoxFuture<Result<Box<dyn UserAgentSession>, Error>> {
        let visitor: Box<dyn UserAgentSession> = Box::new(self.clone());
        Box::pin(async { Ok(visitor) })
    }
}

impl UserAgentSession for Browser {
    fn redirect_uri(&self) -> &str {
        CALLBACK
    }

    fn visit(
        self: Box<Self>,
        to: AuthorizationRequest,
    ) -> BoxFuture<Result<RedirectParams, Error>> {
        *self.0.lock().unwrap() += 1;
        Box::pin(async move {
            let answer = Fetch::new().get(to.url.as_str(), HeaderMap::new()).await?;
            let back = answer.location().filter(|it| it.starts_with(CALLBACK));
            Ok(RedirectParams::from_url(back.unwrap_or_else(|| panic!("{:?}", answer.body))))
        })
    }
}

/// Running server and its URL.
async fn start() -> (Program, String) {
    let mut program = Program::start("servers/fastmcp_oauth.py", &[]);
    let url = format!("http://{}", program.line_after("http://").await);
    program.release_connection();
    (program, url)
}

async fn text(client: &Client, tool: &str) -> String {
    let arguments = if tool == "add" { json!({"a": 2, "b": 3}) } else { json!({}) };
    let called = client.call(tool, arguments).await.unwrap();
    serde_json::to_value(&called).unwrap()["content"][0]["text"].as_str().unwrap().to_owned()
}

/// Logs in, lists, calls, refreshes and logs out.
async fn goes_through(url: &str, auth: Auth, browser: &Browser, method: &str) {
    let vault = MemoryTokenStore::default();
    let auth = auth.token_store(vault.clone());
    let client = Client::builder().auth(auth.clone()).connect(url).await.unwrap();
    let tools = client.tools().all().await.unwrap();
    let tools: Vec<_> = tools.into_iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(tools, ["add", "whoami", "expire"]);
    assert_eq!(text(&client, "add").await, "5");
    assert_eq!(text(&client, "whoami").await, format!("{method}: files:read"));
    // All access tokens expire: the next call refreshes.
    assert_eq!(text(&client, "expire").await, "1");
    assert_eq!(text(&client, "add").await, "5");
    assert_eq!(*browser.0.lock().unwrap(), 1);
    client.close().await;
    let logged_out = auth.logout(url).await;
    assert_eq!(vault.list().await.unwrap(), []);
    match method {
        // Python's `mcp` 2.3 requires the secret in the form of a revocation request, regardless of the client
        // authentication.
        "client_secret_basic" => {
            let error = logged_out.unwrap_err();
            assert!(error.message.contains("/revoke refused"), "{error}");
        }
        _ => assert_eq!(logged_out, Ok(1)),
    }
    let again = Client::builder().auth(Auth::code(browser.clone()).token_store(vault).unattended());
    assert!(again.connect(url).await.is_err());
}

#[tokio::test]
async fn a_client_that_registers_by_itself() {
    let (_program, url) = start().await;
    let browser = Browser::default();
    let test = goes_through(&url, Auth::code(browser.clone()), &browser, "client_secret_post");
    tokio::time::timeout(LIMIT, test).await.expect("it ends in time");
}

/// Registers a client with this authentication method and returns the response.
async fn registered(origin: &str, method: &str) -> (String, String) {
    let metadata = json!({
        "redirect_uris": [CALLBACK],
        "token_endpoint_auth_method": method,
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
    });
    let json = HeaderValue::from_static("application/json");
    let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, json)]);
    let body = Bytes::from(metadata.to_string());
    let answer = Fetch::new().post(&format!("{origin}register"), headers, body).await.unwrap();
    let tool_text: Value = answer.json().unwrap();
    let member = |name: &str| tool_text[name].as_str().unwrap_or_default().to_owned();
    (member("client_id"), member("client_secret"))
}

#[tokio::test]
async fn clients_that_were_registered_by_hand() {
    let (_program, url) = start().await;
    let issuer = url.replace("/mcp", "/");
    for method in ["client_secret_post", "client_secret_basic"] {
        let (id, secret) = registered(&issuer, method).await;
        let browser = Browser::default();
        let auth = Auth::code(browser.clone()).client_secret(id, secret).issuer(&issuer);
        let test = goes_through(&url, auth, &browser, method);
        tokio::time::timeout(LIMIT, test).await.expect("it ends in time");
    }
}

#[tokio::test]
async fn a_login_that_fails_leaves_nothing_behind() {
    let (_program, url) = start().await;
    let issuer = url.replace("/mcp", "/");
    let (id, _) = registered(&issuer, "client_secret_basic").await;
    let vault = MemoryTokenStore::default();
    let auth = Auth::code(Browser::default()).token_store(vault.clone());
    let error = auth.client_secret(id, "wrong").issuer(&issuer).login(&url).await.unwrap_err();
    assert!(error.message.contains("invalid_client"), "{error}");
    assert_eq!(vault.list().await.unwrap(), []);
}
