//! Requests without a valid token are rejected on every transport, and callers cannot use objects of other callers.

use http::{HeaderValue, Request, header};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use wharf::{
    Server, Tool,
    auth::{
        Jwt,
        jose::{SigningKey, b64},
    },
    http::Http,
    tasks::TaskMode,
};

use wharf_testbed::fake_issuer::{ISSUER, Issuer, METADATA, SERVER, good, now};

use crate::advisories::{
    dns_rebinding::{EntryPoint, entry_points, websocket},
    harness::Harness,
    http_client::{self, HttpClient, LEGACY},
    raw_http,
    web::{Events, whole},
};

/// Starts a server that accepts tokens of this issuer, with every transport.
async fn start_with_all_transports(issuer: &Issuer) -> Harness {
    Harness::tuned(|server| server.auth(issuer.jwt()).http(Http::new().sse_2024())).await
}

fn client_with_token(harness: &Harness, token: &str) -> HttpClient {
    HttpClient::modern(harness).with_bearer(token.to_owned().leak())
}

fn invalid(problem: &str) -> (u16, String) {
    let error = r#"Bearer error="invalid_token""#;
    (401, format!(r#"{error}, error_description="{problem}", {METADATA}"#))
}

/// Invalid credentials, each with the expected status and challenge.
fn invalid_credentials(issuer: &Issuer) -> Vec<(Vec<String>, (u16, String))> {
    let bearer = |token: String| vec![format!("Bearer {token}")];
    let with = |name, value| bearer(issuer.token_with(name, value));
    let foreign = SigningKey::generate().unwrap();
    let signed = |kid: &str| bearer(foreign.sign(&json!({"kid": kid}), &good()).unwrap());
    let unsigned = format!("{}.{}.", b64(r#"{"alg":"none"}"#), b64(good().to_string()));
    let malformed = |problem: &str| {
        let error = r#"Bearer error="invalid_request""#;
        (400, format!(r#"{error}, error_description="{problem}", {METADATA}"#))
    };
    let good = format!("Bearer {}", issuer.good_token());
    vec![
        (vec![], (401, format!("Bearer {METADATA}"))),
        (vec!["Basic YTpi".to_owned()], (401, format!("Bearer {METADATA}"))),
        (bearer("abc".to_owned()), invalid("The token is malformed")),
        (bearer(unsigned), invalid("The token's algorithm is not supported")),
        (with("exp", json!(now() - 100)), invalid("The token has expired")),
        (
            with("aud", json!("https://other.example/mcp")),
            invalid("The token is for another audience"),
        ),
        (with("aud", Value::Null), invalid("The token is for another audience")),
        (with("iss", json!("https://other.example")), invalid("The token is from another issuer")),
        (signed("?"), invalid("The token is signed with an unknown key")),
        (signed("one"), invalid("The token's signature is wrong")),
        (vec!["Bearer".to_owned()], malformed("The Authorization header is malformed")),
        (vec![good.clone(), good], malformed("There is more than one Authorization header")),
    ]
}

fn all_entry_points(harness: &Harness) -> Vec<EntryPoint> {
    let mut all = entry_points(harness);
    all.push(websocket());
    all
}

/// CVE-2026-116684, GHSA-rvq5-wwqv-78pq, CVE-2025-69196: the audience of tokens was not checked, or only on demand.
/// CVE-2026-16498, CVE-2026-16326, CVE-2026-45707: a caller without credentials got those of another, or the server's.
#[tokio::test(flavor = "multi_thread")]
async fn unauthenticated_requests_are_rejected_on_every_transport() {
    let entry_points = all_entry_points(&start_with_all_transports(&Issuer::new()).await);
    for entry_point in entry_points {
        // Each has its own issuer, because key requests per issuer are rate limited.
        let issuer = Issuer::new();
        let harness = start_with_all_transports(&issuer).await;
        let host = harness.address.to_string();
        for (headers, (status, challenge)) in &invalid_credentials(&issuer) {
            let mut extra = vec![("host", host.as_str())];
            extra.extend(headers.iter().map(|header| ("authorization", header.as_str())));
            let answer = raw_http::ask(&harness, &entry_point.written(&extra)).await;
            let shown =
                format!("{} {} {headers:?}: {}", entry_point.verb, entry_point.target, answer.head);
            assert_eq!(answer.header("mcp-session-id"), None, "{shown}");
            assert_eq!(answer.status, *status, "{shown}");
            assert_eq!(answer.header("www-authenticate"), Some(challenge.as_str()), "{shown}");
            assert_eq!(answer.code(), -32600, "{shown}");
            // The response does not repeat the token.
            let body = String::from_utf8(answer.body).unwrap();
            let token = headers.first().and_then(|it| it.split_once(' ')).map_or("abc", |it| it.1);
            assert!(token.len() < 20 || !body.contains(token), "{shown}");
        }
        // A token in the URL is ignored, even a valid one.
        let target = if entry_point.target.contains('?') { "&" } else { "?" };
        let target = format!("{}{target}access_token={}", entry_point.target, issuer.good_token());
        let written = entry_point.written(&[("host", &host)]);
        let answer =
            raw_http::ask(&harness, &written.replacen(entry_point.target, &target, 1)).await;
        assert_eq!(answer.status, 400, "{}", answer.head);
        assert_eq!(harness.counts.begun.get(), 0);
    }
}

/// Control for the test above: a valid token is accepted at the same entry points.
#[tokio::test(flavor = "multi_thread")]
async fn a_valid_token_is_accepted_on_every_transport() {
    let issuer = Issuer::new();
    let harness = start_with_all_transports(&issuer).await;
    let host = harness.address.to_string();
    let good = format!("Bearer {}", issuer.good_token());
    let mut statuses = Vec::new();
    for entry_point in all_entry_points(&harness) {
        let written = entry_point.written(&[("host", &host), ("authorization", &good)]);
        let answer = raw_http::ask(&harness, &written).await;
        assert!(!matches!(answer.status, 401 | 403), "{}", answer.head);
        assert_eq!(answer.header("www-authenticate"), None);
        statuses.push(answer.status);
    }
    assert_eq!(statuses, [200, 200, 404, 404, 405, 405, 200, 404, 101]);
    assert_eq!(harness.counts.begun.get(), 1);
    // `Host` and `Origin` are checked before authentication.
    let entry_point = &entry_points(&harness)[0];
    let evil = [("host", "evil.example"), ("authorization", good.as_str())];
    assert_eq!(raw_http::ask(&harness, &entry_point.written(&evil)).await.status, 403);
}

/// CVE-2026-16498, CVE-2026-16326: the principal of one request was applied to the next request on the connection.
#[tokio::test]
async fn callers_take_turns_on_one_connection() {
    let issuer = Issuer::new();
    let harness = start_with_all_transports(&issuer).await;
    let (alice, bob) = (issuer.good_token(), issuer.token_with("sub", json!("bob")));
    let call = HttpClient::modern(&harness).tool("whoami", json!({})).to_string();
    let called = [raw_http::VERSION, ("mcp-method", "tools/call"), ("mcp-name", "whoami")];
    let mut stream = harness.connect().await;
    let turns = [Some(&alice), Some(&bob), None, Some(&bob), Some(&alice), None, Some(&alice)];
    for turn in turns.iter().cycle().take(70) {
        let token = turn.map(|token| format!("Bearer {token}"));
        let mut headers = called.to_vec();
        headers.extend(token.as_ref().map(|token| ("authorization", token.as_str())));
        stream.write_all(raw_http::post(&harness, &headers, &call).as_bytes()).await.unwrap();
        let answer = raw_http::answer(&mut stream).await.expect("the connection stays");
        match turn {
            None => assert_eq!(answer.status, 401),
            Some(token) => {
                let name = if token == &&alice { "alice" } else { "bob" };
                let reply: Value = serde_json::from_slice(&answer.body).unwrap();
                assert_eq!(http_client::text(&reply), format!("{ISSUER} {name}"));
            }
        }
    }
}

/// The same over HTTP/2, where requests of several callers are concurrent.
#[tokio::test(flavor = "multi_thread")]
async fn callers_on_one_connection_are_isolated() {
    let issuer = Issuer::new();
    let harness = start_with_all_transports(&issuer).await;
    let pool = crate::advisories::web::http2();
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..64 {
        let name = format!("caller {number}");
        let token = issuer.token_with("sub", json!(name));
        let caller = HttpClient { pool: pool.clone(), ..client_with_token(&harness, &token) };
        calls.spawn(async move {
            for _ in 0..20 {
                let told = caller.text("whoami", json!({})).await;
                assert_eq!(told, format!("{ISSUER} {name}"));
            }
        });
    }
    calls.join_all().await;
}

/// CVE-2026-52869, CVE-2026-67431, GHSA-953h-535j-jg2v.
#[tokio::test]
async fn a_session_belongs_to_its_creator() {
    let issuer = Issuer::new();
    let harness = start_with_all_transports(&issuer).await;
    let alice =
        HttpClient { revision: LEGACY, ..client_with_token(&harness, &issuer.good_token()) }
            .opened()
            .await;
    let mut call = Events::of(alice.send(&alice.tool("wait", json!({}))).await);
    let event = call.next().await.unwrap().id.expect("an event's id");
    harness.counts.begun.reaches(1).await;

    let bob = issuer.token_with("sub", json!("bob"));
    // The same subject, from an issuer that the server does not trust.
    let stranger = issuer.token_with("iss", json!("https://other.example"));
    for (token, status) in [(Some(bob), 404), (Some(stranger), 401), (None, 401)] {
        let thief = match token {
            Some(token) => alice.clone().with_bearer(token.leak()),
            None => HttpClient { bearer: None, ..alice.clone() },
        };
        let mut resume = thief.bare("GET");
        resume.headers_mut().insert(http_client::LAST_EVENT, event.parse().unwrap());
        let hijack_requests: Vec<Request<_>> = vec![
            thief.post(&thief.tool("echo", json!({"text": "stolen"}))),
            thief.post(&json!({"jsonrpc": "2.0", "id": 1, "result": {"action": "accept"}})),
            thief.bare("GET"),
            resume,
            thief.bare("DELETE"),
        ];
        for attempt in hijack_requests {
            let shown = format!("{} {status}", attempt.method());
            assert_eq!(thief.request(attempt).await.status(), status, "{shown}");
        }
    }
    harness.counts.gate.add();
    // A new token of the same caller continues the session: the token authenticates, not the session id.
    let renewed = issuer.token_with("exp", json!(now() + 900));
    let renewed = alice.clone().with_bearer(renewed.leak());
    let mut resume = renewed.bare("GET");
    resume.headers_mut().insert(http_client::LAST_EVENT, event.parse().unwrap());
    drop(call);
    let mut rest = Events::of(renewed.request(resume).await);
    let through = loop {
        let message = rest.message().await.expect("a reply");
        if message["id"] == 1 {
            break message;
        }
    };
    assert_eq!(http_client::text(&through), "through");
    assert_eq!(renewed.request(renewed.bare("DELETE")).await.status(), 204);
}

/// A message posted to an HTTP+SSE stream runs with the rights of the stream, so only its owner may post.
#[tokio::test]
async fn an_sse_2024_stream_belongs_to_its_creator() {
    let issuer = Issuer::new();
    let harness = start_with_all_transports(&issuer).await;
    let alice = client_with_token(&harness, &issuer.good_token());
    let mut open = alice.bare("GET");
    *open.uri_mut() = format!("http://{}/sse", harness.address).parse().unwrap();
    let mut stream = Events::of(alice.request(open).await);
    let endpoint = stream.next().await.unwrap().data;
    let legacy = HttpClient { revision: LEGACY, ..alice.clone() };
    let post = |caller: &HttpClient| {
        let mut request = caller.post(&legacy.initialize());
        *request.uri_mut() = format!("http://{}/{endpoint}", harness.address).parse().unwrap();
        request
    };
    let bob = client_with_token(&harness, &issuer.token_with("sub", json!("bob")));
    assert_eq!(bob.request(post(&bob)).await.status(), 404);
    let weaker = client_with_token(&harness, &issuer.token_with("scope", json!("")));
    assert_eq!(weaker.request(post(&weaker)).await.status(), 404);
    let nobody = HttpClient::modern(&harness);
    assert_eq!(nobody.request(post(&nobody)).await.status(), 401);
    assert_eq!(legacy.request(post(&legacy)).await.status(), 202);
    assert_eq!(stream.message().await.unwrap()["id"], 1);
}

/// Authorization metadata is public and readable from any origin, on an allowed host.
#[tokio::test]
async fn authorization_pages_are_public() {
    let issuer = Issuer::new();
    let harness = start_with_all_transports(&issuer).await;
    for path in
        ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"]
    {
        let ask = |verb: &str, host: &str, origin: &str| {
            format!("{verb} {path} HTTP/1.1\r\nhost: {host}\r\norigin: {origin}\r\n\r\n")
        };
        let host = harness.address.to_string();
        let answer = raw_http::ask(&harness, &ask("GET", &host, "https://anywhere.example")).await;
        assert_eq!(answer.status, 200, "{}", answer.head);
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
        let told: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(told["resource"], SERVER);
        assert_eq!(told["authorization_servers"], json!([ISSUER]));
        let answer =
            raw_http::ask(&harness, &ask("OPTIONS", &host, "https://anywhere.example")).await;
        assert_eq!(answer.status, 204);
        let answer = raw_http::ask(&harness, &ask("GET", "evil.example", "http://localhost")).await;
        assert_eq!(answer.status, 403);
        let answer = raw_http::ask(&harness, &ask("POST", &host, "https://anywhere.example")).await;
        assert_eq!(answer.status, 403);
        let answer = raw_http::ask(&harness, &ask("POST", &host, "http://localhost")).await;
        assert_eq!(answer.status, 405);
    }
    // Metadata endpoints limit request bodies.
    let long = "x".repeat(65 << 10);
    let request = format!(
        "POST /.well-known/oauth-protected-resource HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{long}",
        long.len()
    );
    assert_eq!(raw_http::ask(&harness, &request).await.status, 413);
}

/// CORS exposes the challenge to an allowed origin and lets it send DPoP proofs.
#[tokio::test]
async fn browser_errors_are_readable() {
    let issuer = Issuer::new();
    let http = Http::new().cors(["https://app.example.com"]);
    let harness = Harness::tuned(|server| server.auth(issuer.jwt()).http(http)).await;
    let caller = HttpClient::modern(&harness);
    let mut request = caller.post(&caller.tool("echo", json!({"text": "x"})));
    let origin = HeaderValue::from_static("https://app.example.com");
    request.headers_mut().insert(header::ORIGIN, origin.clone());
    let response = caller.request(request).await;
    assert_eq!(response.status(), 401);
    assert_eq!(response.headers()["access-control-allow-origin"], origin);
    let exposed = response.headers()["access-control-expose-headers"].to_str().unwrap();
    assert!(exposed.contains("WWW-Authenticate") && exposed.contains("DPoP-Nonce"));
    let preflight = Request::options(&caller.url)
        .header("origin", &origin)
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "authorization, dpop")
        .body(whole(""))
        .unwrap();
    let response = caller.request(preflight).await;
    assert_eq!(response.status(), 204);
    assert_eq!(response.headers()["access-control-allow-headers"], "authorization, dpop");
}

/// The server is not built with an authenticator that would accept every caller.
#[test]
fn an_authority_that_cannot_work_is_not_built() {
    let server = Server::new("harbour", "1.0.0").auth(Jwt::issuer("id.example").audience("x"));
    let problems = server.build().unwrap_err().to_string();
    assert!(problems.contains("authorization: the issuer"), "{problems}");
    // The order of the setters does not matter: HTTP options keep the authenticator.
    let jwt = Jwt::issuer(ISSUER).audience(SERVER);
    let endpoint = Server::new("harbour", "1.0.0").auth(jwt).http(Http::new()).build().unwrap();
    assert!(endpoint.http().options().is_guarded());
    assert_eq!(endpoint.http().options().paths().len(), 3);
}

/// CVE-2026-52870, CVE-2026-111767: tasks were looked up by their id alone.
#[tokio::test]
async fn a_task_belongs_to_its_creator() {
    let issuer = Issuer::new();
    let harness = Harness::tuned(|server| {
        let work = Tool::new("work", async || "secret work").task(TaskMode::optional());
        server.add(work).auth(issuer.jwt())
    })
    .await;
    let bob = issuer.token_with("sub", json!("bob")).leak() as &'static str;
    let alice =
        HttpClient { revision: LEGACY, ..client_with_token(&harness, &issuer.good_token()) }
            .opened()
            .await;
    let params = json!({"name": "work", "arguments": {}, "task": {"ttl": 60_000}});
    let made = http_client::reply(alice.send(&alice.message("tools/call", params)).await).await;
    let task = made["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{made}"));

    let thief = HttpClient { revision: LEGACY, ..client_with_token(&harness, bob) }.opened().await;
    let modern = client_with_token(&harness, bob);
    let ask = async |caller: &HttpClient, method: &str, id: &str| {
        let mut message = caller.message(method, json!({"taskId": id}));
        if caller.revision != LEGACY {
            let meta = &mut message["params"]["_meta"];
            meta["io.modelcontextprotocol/clientCapabilities"] =
                json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        }
        let mut request = caller.post(&message);
        if caller.revision != LEGACY {
            request.headers_mut().insert("mcp-name", id.parse().unwrap());
        }
        let response = caller.request(request).await;
        (response.status(), http_client::body(response).await)
    };
    let unknown = "A".repeat(task.len());
    for (thief, methods) in [
        (&thief, &["tasks/get", "tasks/result", "tasks/cancel"][..]),
        (&modern, &["tasks/get", "tasks/update", "tasks/cancel"]),
    ] {
        for method in methods {
            let (foreign, never) =
                (ask(thief, method, task).await, ask(thief, method, &unknown).await);
            let body = String::from_utf8(foreign.1.to_vec()).unwrap();
            assert!(body.contains("error") && !body.contains("secret"), "{method}: {body}");
            assert_eq!(body.replace(task, &unknown).as_bytes(), never.1, "{method}");
            assert_eq!(foreign.0, never.0, "{method}");
        }
    }
    let list = http_client::reply(thief.send(&thief.message("tasks/list", json!({}))).await).await;
    assert_eq!(list["result"]["tasks"], json!([]), "{list}");
    // The owner still has the task.
    let list = http_client::reply(alice.send(&alice.message("tasks/list", json!({}))).await).await;
    assert_eq!(list["result"]["tasks"][0]["taskId"], task, "{list}");
    let (_, result) = ask(&alice, "tasks/result", task).await;
    assert!(String::from_utf8(result.to_vec()).unwrap().contains("secret work"));
}
