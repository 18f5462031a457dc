//! Schemas whose references expand exponentially, or refer to another server.

use serde_json::{Value, json};

use crate::hostile::scripted_server::{
    Action, ScriptedServer, builder, default_http_reply, http_json, in_time,
};

/// Schemas that are deep, wide, circular, slow to match, or remote.
fn bombs(elsewhere: &str) -> Vec<(&'static str, Value)> {
    let deep = (0..40).fold(json!({"type": "string"}), |inner, _| json!({"allOf": [inner]}));
    let wide: Vec<Value> = (0..20_000).map(|at| json!({"const": at})).collect();
    let again = json!({"$ref": "#/$defs/again"});
    let doubled = json!({"anyOf": [again, again], "properties": {"next": again}});
    vec![
        ("deep", deep),
        ("wide", json!({"anyOf": wide})),
        ("circle", json!({"$ref": "#"})),
        ("doubling", json!({"$ref": "#/$defs/again", "$defs": {"again": doubled}})),
        ("pattern", json!({"properties": {"text": {"pattern": "^(a|a)*(a|a)*(a|a)*$"}}})),
        ("lookaround", json!({"properties": {"text": {"pattern": "^(?=(a+)+$)(a+)+$"}}})),
        ("elsewhere", json!({"$ref": elsewhere})),
        ("schema", json!({"$schema": elsewhere, "type": "object"})),
        ("nonsense", json!({"type": 7, "properties": [], "$ref": 1})),
    ]
}

/// CVE-2026-116686: a `$ref` was fetched. CVE-2026-111768: validating a small message took gigabytes.
#[tokio::test(flavor = "multi_thread")]
async fn a_schema_does_no_harm() {
    let canary = ScriptedServer::http(default_http_reply).await;
    let text = format!("{}!", "a".repeat(40));
    let structured = json!({"text": text, "next": {"next": {"next": {}}}});
    let bombs = bombs(&canary.url());
    let names: Vec<&str> = bombs.iter().map(|bomb| bomb.0).collect();
    let tools: Vec<Value> = bombs
        .iter()
        .map(|(name, schema)| {
            let mut input = schema.clone();
            input["type"] = "object".into();
            json!({"name": name, "inputSchema": input, "outputSchema": schema})
        })
        .collect();
    let server = ScriptedServer::http(move |asked| match asked.method() {
        "tools/list" => Action::Say(http_json(
            200,
            &asked.reply(json!({
                "resultType": "complete", "ttlMs": 1000, "cacheScope": "public", "tools": tools,
            })),
        )),
        "tools/call" => Action::Say(http_json(
            200,
            &asked.reply(json!({
                "resultType": "complete", "content": [], "structuredContent": structured,
            })),
        )),
        _ => default_http_reply(asked),
    });
    let server = server.await;
    let client = in_time(builder().connect(server.url())).await.unwrap();
    let listed = in_time(client.tools().all()).await.unwrap();
    assert_eq!(listed.len(), names.len());
    for name in names {
        // The result of the validation does not matter, only that it ends.
        let called = in_time(client.call(name, json!({"text": "x"}))).await;
        if let Err(error) = called {
            assert!(error.message().len() < 4000, "{name}: {}", error.message().len());
        }
    }
    assert!(canary.asked.lock().unwrap().is_empty(), "a schema was fetched");
}
