//! Proxy, client and browser as the tests drive them.

use std::{collections::HashMap, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, header};
use serde_json::{Value, json};
use url::{Url, form_urlencoded};
use wharf_auth::{
    jose::{b64, sha256},
    proxy::{OAuthProxy, Provider},
};
use wharf_model::{AuthRequest, AuthResult, Authenticator, RequestExtensions, Stores};
use wharf_server::KeyRing;

use wharf_testbed::fake_idp::{ID, Idp, SECRET};

pub(crate) const PUBLIC: &str = "https://harbour.example.com";
pub(crate) const REDIRECT: &str = "https://app.example.com/cb";
pub(crate) const VERIFIER: &str = "0123456789-0123456789-0123456789-0123456789";

/// One process with a proxy.
#[derive(Clone)]
pub(crate) struct ProxyNode(pub(crate) Arc<OAuthProxy>);

/// A response.
pub(crate) struct TestResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

/// Keys that all processes share.
pub(crate) fn keys() -> Arc<KeyRing> {
    Arc::new("00".repeat(32).parse().unwrap())
}

/// A proxy in front of `idp`.
pub(crate) fn proxy(idp: &Idp) -> OAuthProxy {
    let provider = Provider::oidc(&idp.url, ID, SECRET);
    OAuthProxy::new(PUBLIC, provider).scopes(["files:read", "files:write"])
}

/// An identity provider and one process.
pub(crate) async fn setup() -> (Idp, ProxyNode) {
    let idp = Idp::start().await;
    let node = ProxyNode::new(proxy(&idp), &wharf_store::memory_stores());
    (idp, node)
}

impl ProxyNode {
    pub(crate) fn new(proxy: OAuthProxy, stores: &Stores) -> Self {
        proxy.configure(stores, keys()).unwrap();
        ProxyNode(Arc::new(proxy))
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        target: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> TestResponse {
        self.send_from(None, method, target, headers, body).await
    }

    /// The same, from this address.
    pub(crate) async fn send_from(
        &self,
        address: Option<SocketAddr>,
        method: Method,
        target: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> TestResponse {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(address) = address {
            request = request.extension(address);
        }
        let response = self.0.page(request.body(body.into()).unwrap()).await;
        let (parts, body) = response.into_parts();
        let text = String::from_utf8(body.to_vec()).unwrap();
        TestResponse { status: parts.status, headers: parts.headers, text }
    }

    pub(crate) async fn get(&self, target: &str) -> TestResponse {
        self.send(Method::GET, target, &[], "").await
    }

    pub(crate) async fn register(&self, metadata: Value) -> TestResponse {
        let json = [("content-type", "application/json")];
        self.send(Method::POST, "/register", &json, metadata.to_string()).await
    }

    /// Registers a client without a secret.
    pub(crate) async fn client(&self, name: &str, redirect: &str) -> String {
        let metadata = json!({
            "client_name": name, "redirect_uris": [redirect], "token_endpoint_auth_method": "none",
        });
        let page = self.register(metadata).await;
        assert_eq!(page.status, 201, "{}", page.text);
        page.json()["client_id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn post(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        fields: &[(&str, &str)],
    ) -> TestResponse {
        let mut all = vec![("content-type", "application/x-www-form-urlencoded")];
        all.extend(headers);
        self.send(Method::POST, path, &all, form(fields)).await
    }

    /// Redeems a code as its client.
    pub(crate) async fn redeem(&self, client: &str, code: &str) -> TestResponse {
        self.token(&[
            ("grant_type", "authorization_code"),
            ("client_id", client),
            ("code", code),
            ("redirect_uri", REDIRECT),
            ("code_verifier", VERIFIER),
        ])
        .await
    }

    pub(crate) async fn refresh(&self, client: &str, token: &str) -> TestResponse {
        let grant = ("grant_type", "refresh_token");
        self.token(&[grant, ("client_id", client), ("refresh_token", token)]).await
    }

    pub(crate) async fn token(&self, fields: &[(&str, &str)]) -> TestResponse {
        self.post("/token", &[], fields).await
    }

    /// Authenticates a request with this token.
    pub(crate) async fn call(&self, token: &str) -> AuthResult {
        let authorization = format!("Bearer {token}").parse().unwrap();
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, authorization)]);
        self.authenticate(&headers).await
    }

    pub(crate) async fn authenticate(&self, headers: &HeaderMap) -> AuthResult {
        let (uri, scope) = ("/mcp".parse().unwrap(), RequestExtensions::new());
        self.0.admit(&AuthRequest::new(&Method::POST, &uri, headers, &scope)).resolve().await
    }

    /// Runs the flow up to the code, as `user`.
    pub(crate) async fn code(&self, idp: &Idp, client: &str, user: &str) -> String {
        let mut browser = Browser::default();
        let asked = authorize(client, &[]);
        let page = browser.get(self, &asked).await;
        let signing_in = browser.answer(self, &page, "allow").await.link();
        let back = idp.sign_in(&signing_in, user);
        browser.get(self, &target(&back)).await.parameter("code").unwrap()
    }

    /// Runs the flow up to the token response.
    pub(crate) async fn sign_in(&self, idp: &Idp, client: &str, user: &str) -> Value {
        let code = self.code(idp, client, user).await;
        let page = self.redeem(client, &code).await;
        assert_eq!(page.status, 200, "{}", page.text);
        page.json()
    }
}

impl TestResponse {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    pub(crate) fn error(&self) -> String {
        self.json()["error"].as_str().unwrap().to_owned()
    }

    /// Ticket of the consent page.
    pub(crate) fn ticket(&self) -> &str {
        assert_eq!(self.status, 200, "{}", self.text);
        between(&self.text, "name=ticket value=\"", "\"").unwrap()
    }

    /// Link of the page.
    pub(crate) fn link(&self) -> Url {
        let link =
            between(&self.text, "<a href=\"", "\"").unwrap_or_else(|| panic!("{}", self.text));
        Url::parse(&link.replace("&amp;", "&").replace("&#39;", "'")).unwrap()
    }

    /// Redirect target.
    pub(crate) fn location(&self) -> Url {
        assert_eq!(self.status, 303, "{}", self.text);
        Url::parse(self.headers[header::LOCATION].to_str().unwrap()).unwrap()
    }

    pub(crate) fn parameter(&self, name: &str) -> Option<String> {
        parameter(&self.location(), name)
    }

    /// Returns true if the response neither redirects nor links anywhere.
    pub(crate) fn is_dead_end(&self) -> bool {
        !self.headers.contains_key(header::LOCATION)
            && !self.text.contains("http-equiv")
            && !self.text.contains("href")
            && !self.text.contains("<form")
    }
}

/// A browser with cookies.
#[derive(Clone, Default)]
pub(crate) struct Browser {
    pub(crate) cookies: HashMap<String, String>,
}

impl Browser {
    pub(crate) async fn get(&mut self, node: &ProxyNode, target: &str) -> TestResponse {
        let cookies = self.header();
        let page = node.send(Method::GET, target, &[("cookie", &cookies)], "").await;
        self.store_cookies(&page);
        page
    }

    /// Submits a consent page.
    pub(crate) async fn answer(
        &mut self,
        node: &ProxyNode,
        page: &TestResponse,
        decision: &str,
    ) -> TestResponse {
        self.post(node, page.ticket(), decision, PUBLIC).await
    }

    pub(crate) async fn post(
        &mut self,
        node: &ProxyNode,
        ticket: &str,
        decision: &str,
        origin: &str,
    ) -> TestResponse {
        let headers = [("cookie", &*self.header()), ("origin", origin)];
        let page =
            node.post("/consent", &headers, &[("ticket", ticket), ("decision", decision)]).await;
        self.store_cookies(&page);
        page
    }

    fn header(&self) -> String {
        let pairs: Vec<_> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        pairs.join("; ")
    }

    fn store_cookies(&mut self, page: &TestResponse) {
        for cookie in page.headers.get_all(header::SET_COOKIE) {
            let text = cookie.to_str().unwrap();
            let (name, rest) = text.split_once('=').unwrap();
            match text.contains("Max-Age=0") {
                true => self.cookies.remove(name),
                false => self.cookies.insert(name.into(), rest.split(';').next().unwrap().into()),
            };
        }
    }
}

/// Authorization request with changed parameters; empty ones are omitted.
pub(crate) fn authorize(client: &str, changed: &[(&str, &str)]) -> String {
    let challenge = b64(sha256(VERIFIER.as_bytes()));
    let mut fields = vec![
        ("response_type", "code"),
        ("client_id", client),
        ("redirect_uri", REDIRECT),
        ("state", "client's state"),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
        ("resource", "https://harbour.example.com/mcp"),
    ];
    for &(name, value) in changed {
        fields.retain(|(it, _)| *it != name);
        fields.push((name, value));
    }
    fields.retain(|(_, value)| !value.is_empty());
    format!("/authorize?{}", form(&fields))
}

pub(crate) fn form(fields: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

/// Path and query of a URL.
pub(crate) fn target(url: &Url) -> String {
    format!("{}?{}", url.path(), url.query().unwrap_or_default())
}

pub(crate) fn parameter(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(it, _)| it == name).map(|(_, value)| value.into_owned())
}

pub(crate) fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_else(|| panic!("{name} in {value}")).to_owned()
}

pub(crate) fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    text.split_once(before)?.1.split_once(after).map(|(it, _)| it)
}
