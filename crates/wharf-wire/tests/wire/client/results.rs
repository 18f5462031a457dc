//! Results, decoded by their method and encoded again.

use wharf_model::{CacheHint, Method, Outcome, Reply};

use super::*;

fn read(version: &str, method: Method, result: &Value) -> Result<Outcome, Error> {
    client_codec(revision(version)).result(method, &result.to_string())
}

/// Returns a result of each method with all fields of the newest legacy revision, and unknown ones.
fn results() -> Vec<(Method, Value, Value)> {
    let hints =
        json!({"audience": ["user", "robot"], "priority": 0.5, "lastModified": "2025-01-01"});
    let icons =
        json!([{"src": "data:,", "mimeType": "image/png", "sizes": ["any"], "theme": "sepia"}]);
    let content = json!([
        {"type": "text", "text": "ä\n", "annotations": hints, "_meta": {"k": {"deep": [1]}}},
        {"type": "image", "data": "iVA=", "mimeType": "image/png"},
        {"type": "audio", "data": "iVA=", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "a:b", "name": "b", "size": 5, "icons": icons, "annotations": hints},
        {"type": "resource", "resource": {"uri": "a:b", "text": "t", "mimeType": "text/plain", "_meta": {"k": 1}}},
        {"type": "resource", "resource": {"uri": "a:b", "blob": "iVA="}, "annotations": hints},
        {"type": "hologram", "depth": [1, {"x": null}], "annotations": {"future": 1}},
    ]);
    let meta = json!({"com.example/k": {"any": ["thing"]}});
    let messages: Vec<_> = content
        .as_array()
        .unwrap()
        .iter()
        .map(|item| json!({"role": "critic", "content": item}))
        .collect();
    vec![
        (
            Method::CallTool,
            json!({"name": "t"}),
            json!({"content": content, "structuredContent": {"b": 1.5, "a": null}, "isError": true, "_meta": meta}),
        ),
        (
            Method::GetPrompt,
            json!({"name": "p"}),
            json!({"description": "d", "messages": messages, "_meta": meta}),
        ),
        (
            Method::ReadResource,
            json!({"uri": "a:b"}),
            json!({"contents": [{"uri": "a:b", "text": "t", "_meta": {"k": 1}}, {"uri": "a:c", "blob": "iVA="}], "_meta": meta}),
        ),
        (
            Method::ListTools,
            json!({}),
            json!({"tools": [{"name": "t", "title": "T", "description": "d", "inputSchema": {"type": "object", "x-future": [1]},
            "outputSchema": {"type": "object", "$comment": "c"}, "annotations": {"readOnlyHint": true, "title": "A"}, "icons": icons, "_meta": {"k": 1}}],
            "nextCursor": "n\"", "_meta": meta}),
        ),
        (
            Method::ListResources,
            json!({}),
            json!({"resources": [{"uri": "a:b", "name": "b", "size": 5, "annotations": hints, "icons": icons, "_meta": {"k": 1}}], "_meta": meta}),
        ),
        (
            Method::ListTemplates,
            json!({}),
            json!({"resourceTemplates": [{"uriTemplate": "a:{b}", "name": "b", "mimeType": "x/y", "title": "B"}], "nextCursor": ""}),
        ),
        (
            Method::ListPrompts,
            json!({}),
            json!({"prompts": [{"name": "p", "title": "P", "arguments": [{"name": "a", "required": true, "title": "A"}], "icons": icons}]}),
        ),
        (
            Method::Complete,
            json!({}),
            json!({"completion": {"values": ["a", "b"], "total": 9, "hasMore": true}, "_meta": meta}),
        ),
    ]
}

/// Encodes an outcome as our server does.
fn encode_as_server(version: &str, method: Method, params: Value, outcome: &Outcome) -> Value {
    let mut out = Vec::new();
    codec(version, method.name(), params).encode(outcome, &mut out);
    parse(&out)["result"].take()
}

#[test]
fn results_survive_being_passed_on() {
    for (method, params, result) in results() {
        let outcome = read("2025-11-25", method, &result).unwrap();
        assert_eq!(
            encode_as_server("2025-11-25", method, params.clone(), &outcome),
            result,
            "{method:?}"
        );
        let mut modern = result.clone();
        modern["resultType"] = "complete".into();
        if method.info().cacheable {
            (modern["ttlMs"], modern["cacheScope"]) = (5.into(), "public".into());
        }
        let server = json!({"name": "harbour", "version": "1.0.0"});
        modern["_meta"]["io.modelcontextprotocol/serverInfo"] = server;
        let outcome = read(MODERN, method, &modern).unwrap();
        assert_eq!(encode_as_server(MODERN, method, params, &outcome), modern, "{method:?}");
    }
}

#[test]
fn every_revision_reads_every_result() {
    for (method, _, result) in results() {
        for version in LEGACY.into_iter().chain([MODERN]) {
            let mut result = result.clone();
            result["future"] = json!({"any": ["thing"]});
            let outcome = read(version, method, &result);
            assert!(
                matches!(outcome, Ok(Outcome::Complete(_))),
                "{version} {method:?}: {outcome:?}"
            );
        }
    }
}

/// Adds an unknown field to every object, except where any field has a meaning.
fn with_unknown_fields(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(with_unknown_fields),
        Value::Object(fields) => {
            let free = ["_meta", "inputSchema", "outputSchema", "structuredContent"];
            let known = fields.iter_mut().filter(|(name, _)| !free.contains(&name.as_str()));
            known.for_each(|(_, inner)| with_unknown_fields(inner));
            fields.insert("x-future".to_owned(), json!({"any": ["thing", null]}));
        }
        _ => {}
    }
}

#[test]
fn unknown_fields_survive_being_passed_on() {
    for (method, params, mut result) in results() {
        with_unknown_fields(&mut result);
        if matches!(method, Method::Complete)
            || result.get("contents").is_none() && method.info().cacheable
        {
            // The list or completion is the whole result.
            result.as_object_mut().unwrap().remove("x-future");
        }
        let outcome = read("2025-11-25", method, &result).unwrap();
        let again = encode_as_server("2025-11-25", method, params.clone(), &outcome);
        assert_eq!(again, result, "{method:?}");
        let mut modern = result.clone();
        modern["resultType"] = "complete".into();
        if method.info().cacheable {
            (modern["ttlMs"], modern["cacheScope"]) = (5.into(), "public".into());
        }
        modern["_meta"]["io.modelcontextprotocol/serverInfo"] =
            json!({"name": "harbour", "version": "1.0.0"});
        let outcome = read(MODERN, method, &modern).unwrap();
        assert_eq!(encode_as_server(MODERN, method, params, &outcome), modern, "{method:?}");
    }
}

#[test]
fn structured_content_keeps_its_text() {
    let text = r#"{"content":[],"structuredContent":{"b":1.50,"a":1e2,"b":2}}"#;
    let outcome = client_codec(revision(MODERN)).result(Method::CallTool, text).unwrap();
    let Outcome::Complete(Reply::Tool(it)) = outcome else { panic!() };
    assert_eq!(it.structured.unwrap().get(), r#"{"b":1.50,"a":1e2,"b":2}"#);
}

#[test]
fn invalid_results_are_errors() {
    for version in LEGACY.into_iter().chain([MODERN]) {
        for (method, result) in [
            (Method::ListTools, json!({"content": []})),
            (Method::ListTools, json!({"tools": {}})),
            (Method::ListTools, json!({"tools": null})),
            (Method::ListTools, json!({"tools": [{"name": "t"}]})),
            (Method::ListTools, json!({"tools": [5]})),
            (Method::ListPrompts, json!({"prompts": [], "nextCursor": 5})),
            (Method::CallTool, json!({"content": "text"})),
            (Method::CallTool, json!({"content": [{"text": "x"}]})),
            (Method::CallTool, json!({"content": [{"type": "text"}]})),
            (Method::ReadResource, json!({"contents": [{"uri": "a:b"}]})),
            (Method::GetPrompt, json!({"messages": [{"role": "user"}]})),
            (Method::Complete, json!({"values": []})),
            (Method::CallTool, json!([])),
            (Method::CallTool, json!(null)),
            (Method::ListResources, json!("x")),
            (Method::Sample, json!({"role": "user", "model": "m", "content": []})),
        ] {
            let error = read(version, method, &result).unwrap_err();
            assert!(error.kind.is_validation_failed(), "{version} {result}: {error}");
            assert!(error.message.contains(method.name()), "{error}");
        }
    }
    let error =
        read(MODERN, Method::ListTools, &json!({"tools": [{"name": "t", "inputSchema": {}}, {}]}));
    assert!(error.unwrap_err().message.contains("tools[1]"));
}

#[test]
fn result_types() {
    let typed = |kind: Value| json!({"resultType": kind, "content": []});
    for (kind, fine) in [
        (json!("complete"), true),
        (json!(null), true),
        (json!("task"), false),
        (json!(""), false),
        (json!(5), false),
    ] {
        assert_eq!(read(MODERN, Method::CallTool, &typed(kind.clone())).is_ok(), fine, "{kind}");
        for version in LEGACY {
            assert!(
                read(version, Method::CallTool, &typed(kind.clone())).is_ok(),
                "it has no types"
            );
        }
    }
    let error = read(MODERN, Method::CallTool, &typed(json!("someday"))).unwrap_err();
    assert!(error.kind.is_validation_failed() && error.message.contains("someday"));
    let ended =
        json!({"resultType": "complete", "_meta": {"io.modelcontextprotocol/subscriptionId": 1}});
    assert!(matches!(read(MODERN, Method::Listen, &ended), Ok(Outcome::Complete(Reply::Listened))));
}

#[test]
fn client_requests_in_results() {
    let questions = json!({"resultType": "input_required", "requestState": "s\"", "inputRequests": {
        "z": {"method": "roots/list"}, "a": {"method": "elicitation/create", "params": {"message": "m", "requestedSchema": {}}},
        "u": {"method": "elicitation/create", "params": {"mode": "url", "message": "m", "url": "https://x/y"}},
        "s": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}},
    }});
    for (method, may) in [
        (Method::CallTool, true),
        (Method::GetPrompt, true),
        (Method::ReadResource, true),
        (Method::ListTools, false),
        (Method::Complete, false),
    ] {
        match read(MODERN, method, &questions) {
            Ok(Outcome::InputRequired(it)) if may => {
                assert_eq!((it.requests.len(), it.state.as_deref()), (4, Some("s\"")));
            }
            Err(error) => assert!(!may && error.kind.is_validation_failed()),
            other => panic!("{other:?}"),
        }
    }
    let only_state = json!({"resultType": "input_required", "requestState": "s"});
    let Ok(Outcome::InputRequired(it)) = read(MODERN, Method::CallTool, &only_state) else {
        panic!()
    };
    assert!(it.requests.is_empty());
    for requests in [
        json!([]),
        json!(5),
        json!({"a": 5}),
        json!({"a": {}}),
        json!({"a": {"method": "ping"}}),
        json!({"a": {"method": "sampling/createMessage"}}),
        json!({"a": {"method": "elicitation/create", "params": {"mode": "x"}}}),
    ] {
        let result = json!({"resultType": "input_required", "inputRequests": requests});
        let error = read(MODERN, Method::CallTool, &result).unwrap_err();
        assert!(error.kind.is_validation_failed(), "{result}: {error}");
    }
}

#[test]
fn results_beyond_the_limits_are_refused() {
    let tools = vec![r#"{"name":"","inputSchema":{}}"#; 100_001].join(",");
    let result = format!(r#"{{"tools":[{tools}]}}"#);
    for revision in [Revision::NEWEST_LEGACY, revision(MODERN)] {
        let error = client_codec(revision).result(Method::ListTools, &result).unwrap_err();
        assert!(error.kind.is_content_too_large() && error.message.contains("100000"), "{error}");
    }
    let requests: serde_json::Map<_, _> =
        (0..1001).map(|n| (n.to_string(), json!({"method": "roots/list"}))).collect();
    let result = json!({"resultType": "input_required", "inputRequests": requests});
    assert!(read(MODERN, Method::CallTool, &result).unwrap_err().kind.is_content_too_large());
}

#[test]
fn cache_hints_of_results() {
    let private = CacheHint::private(7);
    for (fields, expected) in [
        (json!({"ttlMs": 7, "cacheScope": "public"}), CacheHint::public(7)),
        (json!({"ttlMs": 7, "cacheScope": "private"}), private),
        (json!({"ttlMs": 7, "cacheScope": "tenant"}), private),
        (json!({"ttlMs": 7}), private),
        (json!({"ttlMs": -7, "cacheScope": "public"}), CacheHint::default()),
        (json!({"ttlMs": "7", "cacheScope": "public"}), CacheHint::default()),
        (json!({"ttlMs": null, "cacheScope": 5}), CacheHint::default()),
        (json!({}), CacheHint::default()),
    ] {
        let mut result = json!({"tools": [], "contents": []});
        result.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        for version in LEGACY.into_iter().chain([MODERN]) {
            let expected = if version == MODERN { expected } else { CacheHint::default() };
            let Ok(Outcome::Complete(Reply::Tools(page))) =
                read(version, Method::ListTools, &result)
            else {
                panic!()
            };
            assert_eq!(page.cache, expected, "{version} {fields}");
            let Ok(Outcome::Complete(Reply::Read(it))) =
                read(version, Method::ReadResource, &result)
            else {
                panic!()
            };
            assert_eq!(it.cache.unwrap_or_default(), expected, "{version} {fields}");
        }
    }
}

#[test]
fn metadata_of_the_protocol_is_not_the_users() {
    let meta = json!({"io.modelcontextprotocol/serverInfo": {"name": "x", "version": "1"}, "k": 1});
    let result = json!({"content": [], "_meta": meta});
    let Ok(Outcome::Complete(Reply::Tool(it))) = read(MODERN, Method::CallTool, &result) else {
        panic!()
    };
    assert_eq!(json!(it.meta.unwrap()), json!({"k": 1}));
    let Ok(Outcome::Complete(Reply::Tool(it))) = read("2025-06-18", Method::CallTool, &result)
    else {
        panic!()
    };
    assert_eq!(json!(it.meta.unwrap()), meta, "there, it means nothing");
}

#[test]
fn server_capabilities_are_read() {
    let said = json!({"capabilities": {"tools": {"listChanged": true}, "logging": {}, "future": {}}, "instructions": "i"});
    for version in LEGACY.into_iter().chain([MODERN]) {
        let Ok(Outcome::Complete(Reply::Discover(it))) = read(version, Method::Discover, &said)
        else {
            panic!()
        };
        assert!(it.capabilities.tools.as_ref().unwrap().list_changed && it.capabilities.logging);
        // Before the capability existed, every server may complete.
        assert_eq!(it.capabilities.completions, version == "2024-11-05", "{version}");
        assert_eq!(it.instructions.as_deref(), Some("i"));
    }
}

/// Parts that stay text may be dense; parsed parts have a limit on their values.
#[test]
fn results_with_too_many_values_are_kept_as_text_or_refused() {
    let client_codec = client_codec(revision(MODERN));
    let many = |unit: &str| format!("[{}{unit}]", format!("{unit},").repeat(300_000));
    for text in [
        format!(r#"{{"resultType":"complete","content":[],"_meta":{{"a":{}}}}}"#, many("{}")),
        format!(r#"{{"resultType":"complete","content":[],"structuredContent":{}}}"#, many("{}")),
        format!(r#"{{"resultType":"complete","content":[],"color":{}}}"#, many("{}")),
    ] {
        let Ok(Outcome::Complete(Reply::Tool(it))) = client_codec.result(Method::CallTool, &text)
        else {
            panic!()
        };
        // A proxy forwards it unchanged.
        let codec = codec(MODERN, "tools/call", json!({"name": "t"}));
        let mut out = Vec::new();
        codec.encode(&Outcome::from(it), &mut out);
        let dense = &text[text.find("[{").unwrap()..text.rfind("}]").unwrap() + 2];
        assert!(String::from_utf8(out).unwrap().contains(dense));
    }
    let contents = format!(r#"{{"resultType":"complete","content":{}}}"#, many(r#"{"type":"x"}"#));
    let error = client_codec.result(Method::CallTool, &contents).unwrap_err();
    assert!(error.kind.is_content_too_large(), "{error}");
    let schema = format!(r#"{{"oneOf":{}}}"#, many(r#"{"type":"x"}"#));
    let page =
        format!(r#"{{"resultType":"complete","tools":[{{"name":"t","inputSchema":{schema}}}]}}"#);
    let Ok(Outcome::Complete(Reply::Tools(page))) = client_codec.result(Method::ListTools, &page)
    else {
        panic!()
    };
    assert_eq!(page.items()[0].input_schema.text(), schema);
    assert!(page.body.weight > schema.len());
    let arguments = many(r#"{"name":""}"#);
    let prompts = format!(r#"{{"name":"p","arguments":{arguments}}}"#);
    let page = format!(r#"{{"resultType":"complete","prompts":[{prompts},{prompts}]}}"#);
    let error = client_codec.result(Method::ListPrompts, &page).unwrap_err();
    assert!(error.kind.is_content_too_large(), "{error}");
}
