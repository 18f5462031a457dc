//! Client requests and notifications, in every revision.

use serde_json::{Value, json, value::RawValue};
use wharf_model::{
    ClientRequest, Content, ElicitForm, ElicitUrl, InputRequired, LogLevel, Notification, Outcome,
    SamplingMessage, SamplingRequest, SubscriptionFilter, ToolChoice, ToolChoiceMode, ToolInfo,
    ToolResultContent, ToolUse,
};
use wharf_wire::{Codec, ServerMessage};

use crate::common::*;

fn all_capabilities() -> Value {
    json!({"roots": {}, "sampling": {"tools": {}, "context": {}}, "elicitation": {"form": {}, "url": {}}})
}

fn tool_codec(version: &str) -> Codec {
    codec_for(
        version,
        all_capabilities(),
        "tools/call",
        json!({"name": "t", "_meta": {"progressToken": "tok"}}),
    )
}

fn encode_client_request(version: &str, ask: &ClientRequest) -> Option<Value> {
    let mut out = Vec::new();
    tool_codec(version).ask(5, ask, &mut out).then(|| parse(&out))
}

fn form() -> ClientRequest {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
        "properties": {
            "colours": {"type": "array", "items": {"type": "string", "enum": ["r", "g"]}},
            "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l"}], "default": "s"},
            "count": {"type": "integer", "default": 3, "minimum": 0},
            "sure": {"type": "boolean", "default": true},
        },
        "required": ["colours", "size"],
    });
    ClientRequest::Elicit(Box::new(ElicitForm::new("Fill in", schema)))
}

#[test]
fn form_elicitation_in_every_revision() {
    assert_eq!(encode_client_request("2024-11-05", &form()), None);
    assert_eq!(encode_client_request("2025-03-26", &form()), None);
    assert_eq!(
        encode_client_request("2025-06-18", &form()).unwrap(),
        json!({
            "jsonrpc": "2.0", "id": 5, "method": "elicitation/create", "params": {
                "message": "Fill in",
                "requestedSchema": {
                    "type": "object",
                    "properties": {
                        "size": {"type": "string", "enum": ["s", "l"], "enumNames": ["Small", "l"]},
                        "count": {"type": "integer", "minimum": 0},
                        "sure": {"type": "boolean", "default": true},
                    },
                    "required": ["size"],
                },
            },
        })
    );
    let newest = encode_client_request("2025-11-25", &form()).unwrap();
    let ClientRequest::Elicit(original) = form() else { unreachable!() };
    assert_eq!(
        newest["params"],
        json!({"mode": "form", "message": "Fill in", "requestedSchema": original.schema})
    );
    assert_eq!(encode_client_request(MODERN, &form()), None, "modern servers send no requests");
}

#[test]
fn unusual_form_schemas_do_not_panic() {
    for schema in [
        json!(null),
        json!([]),
        json!({"properties": [], "required": 5}),
        json!({"properties": {"a": true, "b": 5, "c": {"oneOf": [true, {}]}, "d": {"oneOf": 1}}}),
    ] {
        for version in LEGACY {
            encode_client_request(
                version,
                &ClientRequest::Elicit(Box::new(ElicitForm::new("m", schema.clone()))),
            );
        }
    }
}

#[test]
fn url_elicitation_in_every_revision() {
    let ask = ClientRequest::ElicitUrl(Box::new(ElicitUrl::new("Sign in", "https://x/y")));
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", MODERN] {
        assert_eq!(encode_client_request(version, &ask), None);
    }
    let first = encode_client_request("2025-11-25", &ask).unwrap();
    assert_eq!(
        (&first["params"]["mode"], &first["params"]["url"]),
        (&json!("url"), &json!("https://x/y"))
    );
    assert!(first["params"]["elicitationId"].is_string());
    assert_eq!(
        encode_client_request("2025-11-25", &ask).unwrap(),
        first,
        "the same question has the same id"
    );
    let named =
        ClientRequest::ElicitUrl(Box::new(ElicitUrl::new("Sign in", "https://x/y").id("mine")));
    assert_eq!(
        encode_client_request("2025-11-25", &named).unwrap()["params"]["elicitationId"],
        "mine"
    );
}

fn sampling() -> SamplingRequest {
    SamplingRequest::new(100)
        .message(SamplingMessage::new(
            wharf_model::Role::User,
            [Content::text("a"), Content::audio("x", "audio/wav")],
        ))
        .message(SamplingMessage::assistant(ToolUse::new("1", "t", json!({}))))
        .message(SamplingMessage::user(
            ToolResultContent::new("1", [Content::link("a:b", "n")]).structured(json!([1])),
        ))
        .include_context("thisServer")
        .tool(ToolInfo::without_parameters("t").output_schema(json!({"type": "string"})))
        .tool_choice(ToolChoice::from(ToolChoiceMode::Auto))
}

#[test]
fn sampling_by_revision() {
    let ask = ClientRequest::Sample(Box::new(sampling()));
    for version in LEGACY {
        let message = encode_client_request(version, &ask).unwrap();
        assert_eq!(message["method"], "sampling/createMessage");
        let params = &message["params"];
        assert_eq!(
            (&params["maxTokens"], &params["includeContext"]),
            (&json!(100), &json!("thisServer"))
        );
        let messages = params["messages"].as_array().unwrap();
        let newest = version == "2025-11-25";
        assert_eq!(params.get("tools").is_some() && params.get("toolChoice").is_some(), newest);
        if newest {
            assert_eq!(messages.len(), 3);
            assert_eq!(messages[0]["content"].as_array().unwrap().len(), 2);
            assert_eq!(messages[1]["content"]["type"], "tool_use");
            let structured = &messages[2]["content"]["structuredContent"];
            assert_eq!(*structured, json!({"result": [1]}), "only objects before modern");
            assert_eq!(messages[2]["content"]["content"][0]["type"], "resource_link");
            assert_eq!(
                params["tools"][0]["outputSchema"]["properties"],
                json!({"result": {"type": "string"}})
            );
            continue;
        }
        assert_eq!(messages.len(), 4, "one item a message: {version}");
        assert!(messages.iter().all(|it| it["content"].is_object()));
        let audio = if version == "2024-11-05" { "text" } else { "audio" };
        assert_eq!(messages[1]["content"]["type"], audio);
        assert!(messages[2..].iter().all(|it| it["content"]["type"] == "text"));
    }
}

#[test]
fn include_context_needs_the_client_capability() {
    let ask = ClientRequest::Sample(Box::new(sampling()));
    let without = json!({"sampling": {"tools": {}}});
    for (version, kept) in [("2024-11-05", true), ("2025-06-18", true), ("2025-11-25", false)] {
        let codec = codec_for(version, without.clone(), "tools/call", json!({"name": "t"}));
        let mut out = Vec::new();
        assert!(codec.ask(1, &ask, &mut out));
        assert_eq!(parse(&out)["params"].get("includeContext").is_some(), kept, "{version}");
    }
}

#[test]
fn roots_requests_and_their_cancellation() {
    for version in LEGACY {
        assert_eq!(
            encode_client_request(version, &ClientRequest::Roots).unwrap(),
            json!({"jsonrpc": "2.0", "id": 5, "method": "roots/list"})
        );
        let mut out = Vec::new();
        tool_codec(version).withdraw(5, &mut out);
        let message = parse(&out);
        assert_eq!(
            (&message["method"], &message["params"]["requestId"]),
            (&json!("notifications/cancelled"), &json!(5))
        );
        assert!(message.get("id").is_none());
    }
    let mut out = Vec::new();
    tool_codec(MODERN).withdraw(5, &mut out);
    assert!(!tool_codec(MODERN).write_listen_end(&mut out));
    assert!(out.is_empty());
}

#[test]
fn modern_input_requests_end_the_call() {
    let url = ClientRequest::ElicitUrl(Box::new(
        ElicitUrl::new("Sign in", "https://x/y").id("never sent"),
    ));
    let requests = vec![
        ("z \"1\"".into(), form()),
        ("a".into(), url),
        ("s".into(), ClientRequest::Sample(Box::new(sampling()))),
        ("r".into(), ClientRequest::Roots),
    ];
    let outcome =
        Outcome::InputRequired(Box::new(InputRequired::new(requests, Some("sealed".into()))));
    let codec = tool_codec(MODERN);
    let mut out = Vec::new();
    assert_eq!(codec.encode(&outcome, &mut out), 200);
    let text = String::from_utf8(out.clone()).unwrap();
    let keys = [r#"z \"1\""#, "a", "s", "r"].map(|key| format!("\"{key}\":{{\"method\""));
    let places = keys.map(|key| text.find(&key).unwrap());
    assert!(places.is_sorted(), "the questions keep their order");
    let message = parse(&out);
    let result = &message["result"];
    assert_eq!(
        (&result["resultType"], &result["requestState"]),
        (&json!("input_required"), &json!("sealed"))
    );
    assert!(result.get("ttlMs").is_none());
    let requests = &result["inputRequests"];
    assert_eq!(
        requests["a"]["params"],
        json!({"mode": "url", "message": "Sign in", "url": "https://x/y"})
    );
    assert_eq!(requests["z \"1\""]["params"]["mode"], "form");
    assert_eq!(requests["s"]["params"]["messages"][2]["content"]["structuredContent"], json!([1]));
    assert_eq!(requests["r"], json!({"method": "roots/list"}));
    let listed = crate::common::codec(MODERN, "tools/list", json!({}));
    let (refused, _) = encoded(&listed, outcome);
    assert_eq!(refused["error"]["code"], -32603, "only some methods may ask");
    let only_state = InputRequired::new(vec![], Some("x".into()));
    let (message, _) = encoded(&codec, Outcome::InputRequired(Box::new(only_state)));
    assert!(message["result"].get("inputRequests").is_none());
}

#[test]
fn a_modern_call_sends_only_client_requests_that_the_client_declared() {
    let ask = |ask: ClientRequest, state: Option<&str>| {
        let able = codec_for(MODERN, json!({"roots": {}}), "tools/call", json!({"name": "t"}));
        let requests = vec![("k".to_owned(), ask)];
        let input = InputRequired::new(requests, state.map(str::to_owned));
        encoded(&able, Outcome::InputRequired(Box::new(input)))
    };
    assert_eq!(ask(ClientRequest::Roots, None).0["result"]["resultType"], "input_required");
    let (message, status) = ask(form(), Some("s"));
    assert_eq!((&message["error"]["code"], status), (&json!(-32021), 400));
    assert_eq!(message["error"]["data"]["requiredCapabilities"], json!({"elicitation": {}}));
    let nothing = Outcome::InputRequired(Box::default());
    assert_eq!(encoded(&tool_codec(MODERN), nothing).0["error"]["code"], -32603, "asks nothing");
}

fn encode_notification(codec: &Codec, notification: &Notification) -> Option<Value> {
    let mut out = Vec::new();
    let written = codec.notify(notification, &mut out);
    assert_eq!(written, !out.is_empty());
    written.then(|| parse(&out))
}

#[test]
fn progress() {
    let progress =
        |progress, total| Notification::Progress { progress, total, message: Some("m\n".into()) };
    for version in LEGACY.into_iter().chain([MODERN]) {
        let message = encode_notification(&tool_codec(version), &progress(0.5, Some(2.0))).unwrap();
        assert_eq!(message["method"], "notifications/progress");
        let mut params = json!({"progressToken": "tok", "progress": 0.5, "total": 2});
        if version != "2024-11-05" {
            params["message"] = "m\n".into();
        }
        assert_eq!(message["params"], params, "{version}");
        assert_eq!(encode_notification(&tool_codec(version), &progress(f64::NAN, None)), None);
        assert_eq!(
            encode_notification(&tool_codec(version), &progress(1.0, Some(f64::INFINITY))),
            None
        );
        let silent = codec(version, "tools/call", json!({"name": "t"}));
        assert_eq!(
            encode_notification(&silent, &progress(1.0, None)),
            None,
            "nobody asked for progress"
        );
    }
}

#[test]
fn logs() {
    let data = RawValue::from_string("{\n\"a\":\r\n1}".into()).unwrap();
    let log = Notification::Log { level: LogLevel::Warning, logger: Some("db".into()), data };
    for version in LEGACY.into_iter().chain([MODERN]) {
        let message = encode_notification(&tool_codec(version), &log).unwrap();
        assert_eq!(
            message,
            json!({
                "jsonrpc": "2.0", "method": "notifications/message",
                "params": {"level": "warning", "logger": "db", "data": {"a": 1}},
            })
        );
    }
    let listen = codec(MODERN, "subscriptions/listen", json!({"notifications": {}}));
    assert_eq!(encode_notification(&listen, &log), None);
}

#[test]
fn changes() {
    use Notification::*;
    let updated = ResourceUpdated { uri: "a:b".into() };
    let complete = ElicitationComplete { id: "e".into() };
    let acknowledged = Acknowledged(SubscriptionFilter::default().tools(true));
    for version in LEGACY {
        let codec = tool_codec(version);
        assert_eq!(encode_notification(&codec, &updated).unwrap()["params"], json!({"uri": "a:b"}));
        assert!(encode_notification(&codec, &PromptsChanged).unwrap().get("params").is_none());
        assert_eq!(encode_notification(&codec, &acknowledged), None);
        let done = encode_notification(&codec, &complete);
        assert_eq!(done.is_some(), version == "2025-11-25", "{version}");
        if let Some(done) = done {
            assert_eq!(done["params"], json!({"elicitationId": "e"}));
        }
    }
    let call = tool_codec(MODERN);
    let listen = codec(MODERN, "subscriptions/listen", json!({"notifications": {}}));
    for (notification, params) in [
        (&updated, json!({"uri": "a:b"})),
        (&ToolsChanged, json!({})),
        (&PromptsChanged, json!({})),
        (&ResourcesChanged, json!({})),
        (&acknowledged, json!({"notifications": {"toolsListChanged": true}})),
    ] {
        assert_eq!(encode_notification(&call, notification), None, "only on the stream that asked");
        let message = encode_notification(&listen, notification).unwrap();
        let mut expected = params;
        expected["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": 7});
        assert_eq!(message["params"], expected);
        let ServerMessage::ServerNotification(heard) =
            decode(&client_codec(revision(MODERN)), &message)
        else {
            panic!()
        };
        assert_eq!(heard.subscription.unwrap().as_json(), "7");
    }
    assert_eq!(encode_notification(&listen, &complete), None);
}
