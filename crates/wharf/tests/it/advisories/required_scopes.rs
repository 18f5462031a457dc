//! Features that require missing scopes are hidden and rejected with a challenge that names the scopes.

use serde_json::{Value, json};
use wharf::{Prompt, Resource, Server, Tool};

use wharf_testbed::fake_issuer::{Issuer, METADATA};

use crate::advisories::{
    harness::Harness,
    http_client::{self, HttpClient, LEGACY},
};

fn offers(server: Server) -> Server {
    server
        .add(Tool::new("erase", async || "erased").scope("files:delete").scope("audit"))
        .add(Resource::new("test://secret", async || "secret").scope("files:read"))
        .add(
            Resource::new("test://notes/{+name}", async |_: wharf::Uri| "note").scope("files:read"),
        )
        .add(Prompt::new("plan", async || "plan").scope("plans"))
        .access(|_: Option<&wharf::Principal>, item: wharf::server::Item<'_>| {
            item.name() != "hidden"
        })
        .add(Tool::new("hidden", async || "hidden").scope("files:delete"))
}

async fn listed(caller: &HttpClient, method: &str, list: &str) -> Vec<String> {
    let reply = http_client::reply(caller.send(&caller.message(method, json!({}))).await).await;
    let items = reply["result"][list].as_array().unwrap_or_else(|| panic!("{reply}")).clone();
    let name = |item: &Value| item["name"].as_str().unwrap().to_owned();
    items.iter().map(name).collect()
}

#[tokio::test]
async fn features_without_the_required_scope_are_neither_listed_nor_callable() {
    let issuer = Issuer::new();
    let harness = Harness::tuned(|server| offers(server).auth(issuer.jwt())).await;
    let token = |scope: &str| issuer.token_with("scope", json!(scope)).leak() as &'static str;
    for revision in [http_client::MODERN, LEGACY] {
        let caller =
            HttpClient { revision, ..HttpClient::modern(&harness).with_bearer(token("base")) };
        let caller = caller.opened().await;
        let tools = listed(&caller, "tools/list", "tools").await;
        assert!(!tools.contains(&"erase".to_owned()) && tools.contains(&"echo".to_owned()));
        assert_eq!(listed(&caller, "resources/list", "resources").await, ["broken"]);
        let templates = listed(&caller, "resources/templates/list", "resourceTemplates").await;
        assert_eq!(templates, Vec::<String>::new());
        assert_eq!(listed(&caller, "prompts/list", "prompts").await, ["confused"]);

        let needs = |needed: &str| {
            format!(
                r#"Bearer error="insufficient_scope", scope="base {needed}", error_description="Insufficient scope: this needs {needed}", {METADATA}"#
            )
        };
        let read = |uri: &str| caller.message("resources/read", json!({"uri": uri}));
        for (message, needed) in [
            (caller.tool("erase", json!({})), "files:delete audit"),
            (read("test://secret"), "files:read"),
            (read("test://notes/a"), "files:read"),
            (caller.message("prompts/get", json!({"name": "plan"})), "plans"),
        ] {
            let response = caller.send(&message).await;
            assert_eq!(response.status(), 403, "{message}");
            assert_eq!(response.headers()["www-authenticate"], needs(needed), "{message}");
            let reply = http_client::reply(response).await;
            let scopes: Vec<&str> = needed.split(' ').collect();
            assert_eq!(reply["error"]["data"]["requiredScopes"], json!(scopes), "{reply}");
        }
        // A feature that the server's own rule hides stays hidden, whatever scopes it requires.
        let hidden = http_client::reply(caller.send(&caller.tool("hidden", json!({}))).await).await;
        assert_eq!(hidden["error"]["message"], "Unknown tool: hidden");

        // With all scopes, in the same session.
        let all = token("base files:delete audit files:read plans");
        let caller = caller.clone().with_bearer(all);
        assert_eq!(caller.text("erase", json!({})).await, "erased");
        assert!(listed(&caller, "tools/list", "tools").await.contains(&"erase".to_owned()));
        let resources = listed(&caller, "resources/list", "resources").await;
        assert_eq!(resources, ["broken", "test://secret"]);
        for message in [read("test://secret"), read("test://notes/a")] {
            assert_eq!(caller.send(&message).await.status(), 200);
        }
        // Some of the required scopes are not enough.
        let half = caller.with_bearer(token("audit"));
        assert_eq!(half.send(&half.tool("erase", json!({}))).await.status(), 403);
    }
}

/// A list that depends on the caller has cache scope `private`.
#[tokio::test]
async fn lists_with_scopes_are_private() {
    let issuer = Issuer::new();
    let harness = Harness::tuned(|server| {
        server.add(Tool::new("erase", async || "").scope("x")).auth(issuer.jwt())
    })
    .await;
    let caller = HttpClient::modern(&harness).with_bearer(issuer.good_token().leak());
    for (method, scope) in [("tools/list", "private"), ("prompts/list", "public")] {
        let reply = http_client::reply(caller.send(&caller.message(method, json!({}))).await).await;
        assert_eq!(reply["result"]["cacheScope"], scope, "{reply}");
    }
}

/// CVE-2026-45707: a caller without credentials cannot use features that require scopes.
#[tokio::test]
async fn scopes_require_authentication() {
    let harness = Harness::tuned(offers).await;
    let caller = HttpClient::modern(&harness);
    let response = caller.send(&caller.tool("erase", json!({}))).await;
    assert_eq!(response.status(), 401);
    assert_eq!(response.headers()["www-authenticate"], "Bearer");
    assert!(!listed(&caller, "tools/list", "tools").await.contains(&"erase".to_owned()));
    // Behind middleware that sets principals but sends no challenges.
    let harness = Harness::behind_bearer(offers).await;
    let caller = HttpClient::modern(&harness).with_bearer("alice");
    let response = caller.send(&caller.tool("erase", json!({}))).await;
    assert_eq!(response.status(), 403);
    assert_eq!(response.headers()["www-authenticate"], r#"Bearer error="insufficient_scope""#);
}

/// A client over stdio or in the same process needs no scopes.
#[tokio::test]
async fn this_process_needs_no_scope() {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    let endpoint = offers(Server::new("harbour", "1.0.0")).build().unwrap();
    let (reader, mut writer) = endpoint.connect_memory();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": http_client::MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": "erase", "arguments": {}, "_meta": meta});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    writer.write_all(format!("{call}\n").as_bytes()).await.unwrap();
    let mut line = String::new();
    BufReader::new(reader).read_line(&mut line).await.unwrap();
    assert_eq!(http_client::text(&serde_json::from_str(&line).unwrap()), "erased");
}

/// Access to a task requires the scopes of its tool: without them a caller cannot get the result.
#[tokio::test]
async fn tasks_need_the_scopes_of_their_tool() {
    use wharf::tasks::TaskMode;
    let issuer = Issuer::new();
    let harness = Harness::tuned(|server| {
        let task = || TaskMode::optional();
        let secret = Tool::new("report", async || "top secret").scope("admin").task(task());
        let hidden = Tool::new("hidden", async || "top secret").task(task());
        let rule = |caller: Option<&wharf::Principal>, item: wharf::server::Item<'_>| {
            item.name() != "hidden" || caller.is_some_and(|it| it.has_scope("admin"))
        };
        server.add(secret).add(hidden).access(rule).auth(issuer.jwt())
    })
    .await;
    let token = |scope: &str| issuer.token_with("scope", json!(scope)).leak() as &'static str;
    let admin =
        HttpClient { revision: LEGACY, ..HttpClient::modern(&harness).with_bearer(token("admin")) };
    let admin = admin.opened().await;
    let low =
        HttpClient { revision: LEGACY, ..HttpClient::modern(&harness).with_bearer(token("base")) };
    let low = low.opened().await;
    let mut ids = Vec::new();
    for tool in ["report", "hidden"] {
        let params = json!({"name": tool, "arguments": {}, "task": {"ttl": 60_000}});
        let made = http_client::reply(admin.send(&admin.message("tools/call", params)).await).await;
        ids.push(made["result"]["task"]["taskId"].clone());
        assert!(ids.iter().all(Value::is_string), "{made}");
    }
    let list = async |caller: &HttpClient| {
        let reply =
            http_client::reply(caller.send(&caller.message("tasks/list", json!({}))).await).await;
        reply["result"]["tasks"].as_array().unwrap_or_else(|| panic!("{reply}")).len()
    };
    assert_eq!((list(&admin).await, list(&low).await), (2, 0));
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let ask = |id: &Value| low.message(method, json!({"taskId": id}));
        let scoped = low.send(&ask(&ids[0])).await;
        assert_eq!(scoped.status(), 403, "{method}");
        let mut hidden = http_client::reply(low.send(&ask(&ids[1])).await).await;
        let mut unknown = http_client::reply(low.send(&ask(&json!("nobody"))).await).await;
        (hidden["id"], unknown["id"]) = (json!(0), json!(0));
        assert!(hidden["error"].is_object(), "{method} {hidden}");
        assert_eq!(hidden, unknown, "{method}");
    }
    for id in &ids {
        let result = admin.message("tasks/result", json!({"taskId": id}));
        assert_eq!(
            http_client::text(&http_client::reply(admin.send(&result).await).await),
            "top secret"
        );
    }
}
