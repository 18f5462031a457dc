//! Notifications, completions and pages contain only what the scopes of the current token permit.

use serde_json::{Value, json};
use tokio::time::timeout;
use wharf::{
    Args, Prompt, Resource, Server, Tool,
    prelude::JsonSchema,
    server::{CallLimits, Limits},
};

use wharf_testbed::fake_issuer::{Issuer, METADATA};

use crate::advisories::{
    attacked_server::{EventCounter, gated},
    harness::{Harness, PATIENCE},
    http_client::{self, HttpClient, LEGACY, MODERN},
    web::Events,
};

/// Caller with several tokens of one subject, with different scopes.
struct ScopedCaller {
    harness: Harness,
    issuer: Issuer,
}

impl ScopedCaller {
    async fn to(offers: impl FnOnce(Server) -> Server) -> ScopedCaller {
        let issuer = Issuer::new();
        let harness = Harness::tuned(|server| offers(server).auth(issuer.jwt())).await;
        ScopedCaller { harness, issuer }
    }

    fn token(&self, scope: &str) -> &'static str {
        self.issuer.token_with("scope", json!(scope)).leak()
    }

    async fn legacy(&self, scope: &str) -> HttpClient {
        let caller = HttpClient::modern(&self.harness).with_bearer(self.token(scope));
        HttpClient { revision: LEGACY, ..caller }.opened().await
    }

    /// Client of the same session with another token.
    fn again(&self, caller: &HttpClient, scope: &str) -> HttpClient {
        caller.clone().with_bearer(self.token(scope))
    }
}

async fn ask(caller: &HttpClient, method: &str, params: Value) -> Value {
    http_client::reply(caller.send(&caller.message(method, params)).await).await
}

async fn next_notification(events: &mut Events) -> Value {
    timeout(PATIENCE, events.message()).await.expect("patience").expect("a message")
}

async fn next_updated_uri(events: &mut Events) -> String {
    let message = next_notification(events).await;
    message["params"]["uri"].as_str().unwrap_or_else(|| panic!("{message}")).to_owned()
}

/// A session outlives its first token: notifications are filtered by the newest token's scopes.
#[tokio::test]
async fn notifications_use_the_scopes_of_the_newest_token() {
    let known = ScopedCaller::to(|server| {
        let secret = Resource::new("test://secret", async || "secret").scope("files:read");
        // Notified after the secret resource, if the caller may receive both.
        server.add(secret).add(Resource::new("test://zebra", async || "zebra"))
    })
    .await;
    let change = || {
        let registry = known.harness.endpoint.registry();
        registry.resource_updated("test://secret");
        registry.resource_updated("test://zebra");
    };
    for first in ["files:read", "base"] {
        let session = known.legacy(first).await;
        for uri in ["test://secret", "test://zebra"] {
            let reply = ask(&session, "resources/subscribe", json!({ "uri": uri })).await;
            assert!(reply["result"].is_object(), "{reply}");
        }
        let mut events = session.listen().await;
        for scope in [first, "base", "files:read", "base", "files:read"] {
            known.again(&session, scope).works().await;
            change();
            if scope == "files:read" {
                assert_eq!(next_updated_uri(&mut events).await, "test://secret");
            }
            assert_eq!(
                next_updated_uri(&mut events).await,
                "test://zebra",
                "{scope} after {first}"
            );
        }
    }
}

/// Tool that requires a scope, and waits at the gate as a task.
fn report(gate: &EventCounter) -> Tool {
    gated("report", gate, "top secret").scope("admin")
}

async fn begin(admin: &HttpClient) -> String {
    let params = json!({"name": "report", "arguments": {}, "task": {"ttl": 60_000}});
    let made = ask(admin, "tools/call", params).await;
    made["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
}

/// All notifications up to the change of the prompt list, which follows a change of the tool list.
async fn notifications_until_prompts(known: &ScopedCaller, events: &mut Events) -> Vec<Value> {
    let registry = known.harness.endpoint.registry();
    registry.tools_changed();
    let mut all = Vec::new();
    loop {
        let message = next_notification(events).await;
        match message["method"].as_str() {
            // Notifications sent after those of lists have arrived by the second list change.
            Some("notifications/tools/list_changed") => registry.prompts_changed(),
            Some("notifications/prompts/list_changed") => return all,
            _ => all.push(message),
        }
    }
}

fn is_about(task: &str, messages: &[Value]) -> bool {
    messages.iter().any(|message| message.to_string().contains(task))
}

#[tokio::test]
async fn a_subscription_excludes_tasks_outside_the_token_scopes() {
    let gate = EventCounter::default();
    let known = ScopedCaller::to(|server| server.add(report(&gate))).await;
    let admin = known.legacy("admin").await;
    let task = begin(&admin).await;
    let modern =
        |scope: &str| HttpClient { revision: MODERN, session: None, ..known.again(&admin, scope) };
    let listen = async |scope: &str| {
        let caller = modern(scope);
        let wanted =
            json!({"taskIds": [task], "toolsListChanged": true, "promptsListChanged": true});
        let mut listen = caller.message("subscriptions/listen", json!({"notifications": wanted}));
        listen["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
            json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        let mut events = Events::of(caller.send(&listen).await);
        (next_notification(&mut events).await["params"]["notifications"]["taskIds"].clone(), events)
    };
    let (agreed, mut low) = listen("base").await;
    assert!(!agreed.to_string().contains(&task), "{agreed}");
    let (agreed, mut high) = listen("admin").await;
    assert_eq!(agreed, json!([task]));
    gate.add();
    let done = next_notification(&mut high).await;
    assert_eq!(
        (&done["params"]["taskId"], &done["params"]["status"]),
        (&json!(task), &json!("completed"))
    );
    let messages = notifications_until_prompts(&known, &mut low).await;
    assert!(!is_about(&task, &messages), "{messages:?}");
    // A late subscription, after the end of the task, is not notified either.
    let (agreed, mut late) = listen("base").await;
    assert!(!agreed.to_string().contains(&task), "{agreed}");
    let messages = notifications_until_prompts(&known, &mut late).await;
    assert!(!is_about(&task, &messages), "{messages:?}");
}

/// The session that started a task is notified of its end, but not with a token that lacks the scopes.
#[tokio::test]
async fn task_notifications_require_the_scopes_of_the_task() {
    for (scope, tells) in [("admin", true), ("base", false)] {
        let gate = EventCounter::default();
        let known = ScopedCaller::to(|server| server.add(report(&gate))).await;
        let session = known.legacy("admin").await;
        let mut events = session.listen().await;
        let task = begin(&session).await;
        known.again(&session, scope).works().await;
        gate.add();
        // Another session of the same caller waits for the end of the task, so that the notification was sent by then.
        let other = known.legacy("admin").await;
        let result = ask(&other, "tasks/result", json!({"taskId": task})).await;
        assert_eq!(http_client::text(&result), "top secret");
        let messages = notifications_until_prompts(&known, &mut events).await;
        assert_eq!(is_about(&task, &messages), tells, "{scope}: {messages:?}");
    }
}

#[derive(serde::Deserialize, JsonSchema)]
struct Month {
    month: String,
}

#[tokio::test]
async fn completion_requires_the_scope_of_the_prompt() {
    let known = ScopedCaller::to(|server| {
        let plan = Prompt::new("plan", async |Args(it): Args<Month>| it.month).scope("plans");
        let notes = Resource::new("test://notes/{name}", async |_: wharf::Uri| "note");
        server
            .add(plan.complete_from("month", ["May", "March"]))
            .add(notes.scope("files:read").complete_from("name", ["Merger"]))
    })
    .await;
    let prompt = json!({
        "ref": {"type": "ref/prompt", "name": "plan"}, "argument": {"name": "month", "value": "M"},
    });
    let template = json!({
        "ref": {"type": "ref/resource", "uri": "test://notes/{name}"},
        "argument": {"name": "name", "value": "M"},
    });
    let mut by_match = template.clone();
    by_match["ref"]["uri"] = json!("test://notes/Me");
    for revision in [MODERN, LEGACY] {
        let low = HttpClient {
            revision,
            ..HttpClient::modern(&known.harness).with_bearer(known.token("base"))
        };
        let low = low.opened().await;
        let high = known.again(&low, "base plans files:read");
        for (params, needed) in
            [(&prompt, "plans"), (&template, "files:read"), (&by_match, "files:read")]
        {
            let response = low.send(&low.message("completion/complete", params.clone())).await;
            assert_eq!(response.status(), 403, "{params}");
            let challenge = format!(
                r#"Bearer error="insufficient_scope", scope="base {needed}", error_description="Insufficient scope: this needs {needed}", {METADATA}"#
            );
            assert_eq!(response.headers()["www-authenticate"], challenge, "{params}");
            let reply = http_client::body(response).await;
            assert!(!String::from_utf8_lossy(&reply).contains("Mer"), "{params}");
            let reply = ask(&high, "completion/complete", params.clone()).await;
            assert_ne!(reply["result"]["completion"]["values"], json!([]), "{reply}");
        }
    }
}

/// Pages contain what the caller may access, without gaps and without a hint at the rest.
#[tokio::test]
async fn pages_contain_only_features_in_scope() {
    let limits = Limits::default().calls(CallLimits::default().page(3));
    let known = ScopedCaller::to(|server| {
        // The last tools require a scope: another page would reveal that they exist.
        let names = (0..14).map(|number| (format!("t{number:02}"), number % 3 == 1 || number > 10));
        names.fold(server.limits(limits), |server, (name, secret)| {
            let tool = Tool::new(name, async || "");
            server.add(if secret { tool.scope("admin") } else { tool })
        })
    })
    .await;
    let pages = async |caller: &HttpClient, from: Option<Value>| {
        let (mut names, mut cursor, mut sizes) = (Vec::new(), from, Vec::new());
        loop {
            let params = cursor.take().map_or(json!({}), |cursor| json!({ "cursor": cursor }));
            let reply = ask(caller, "tools/list", params).await;
            let tools = reply["result"]["tools"].as_array().unwrap_or_else(|| panic!("{reply}"));
            names.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
            sizes.push(tools.len());
            match &reply["result"]["nextCursor"] {
                Value::Null => return (names, sizes),
                next => cursor = Some(next.clone()),
            }
        }
    };
    let open = ["t00", "t02", "t03", "t05", "t06", "t08", "t09"];
    for revision in [MODERN, LEGACY] {
        let low = HttpClient {
            revision,
            ..HttpClient::modern(&known.harness).with_bearer(known.token("base"))
        };
        let low = low.opened().await;
        let high = known.again(&low, "admin");
        let (all, _) = pages(&high, None).await;
        let is_open = |name: &&String| !name.starts_with('t') || open.contains(&&***name);
        let expected: Vec<String> = all.iter().filter(is_open).cloned().collect();
        assert_eq!(all.len() - expected.len(), 7);
        let (names, sizes) = pages(&low, None).await;
        assert_eq!(names, expected);
        assert_eq!(sizes.len(), expected.len().div_ceil(3), "{sizes:?}");
        // A cursor continues with another token of the same subject, filtered by that token's scopes.
        let first = ask(&high, "tools/list", json!({})).await;
        let cursor = first["result"]["nextCursor"].clone();
        assert_eq!(pages(&low, Some(cursor.clone())).await.0, expected[3..]);
        // Another subject cannot use the cursor.
        let bob = known.issuer.token_with("sub", json!("bob")).leak();
        let bob = HttpClient { session: None, ..low.clone() }.with_bearer(bob).opened().await;
        let reply = ask(&bob, "tools/list", json!({ "cursor": cursor })).await;
        assert!(reply["error"].is_object(), "{reply}");
    }
}
