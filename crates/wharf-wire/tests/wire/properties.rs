//! Property tests: no input panics, and encoded messages are decoded unchanged.

use std::sync::Arc;

use proptest::{collection::vec, option, prelude::*, sample::select};
use serde_json::{Value, json};
use wharf_model::{
    CacheHint, Completion, Content, ElicitForm, ElicitUrl, InputRequired, JsonText, LogLevel,
    Method, Outcome, Page, PageBody, PromptInfo, PromptMessage, PromptResult, ReadResult, Reply,
    Request, RequestBuilder, ResourceContents, ResourceInfo, SamplingMessage, SamplingRequest,
    TemplateInfo, ToolInfo, ToolResult,
};
use wharf_wire::{CallId, Era, Line, Lines, Received, Revision};

use crate::common::*;

/// Generates text with many characters that JSON must escape.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[a-z\"\\\\\n\r\t\u{1}\u{2028}é😀]{0,40}"]
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((text(), inner), 0..4).prop_map(|it| Value::Object(it.into_iter().collect())),
        ]
    })
}

fn json_object() -> impl Strategy<Value = Value> {
    vec((text(), json_value()), 0..4).prop_map(|it| Value::Object(it.into_iter().collect()))
}

fn valid_messages() -> Vec<Value> {
    vec![
        initialize("2025-03-26", json!({"sampling": {}})),
        notification("notifications/initialized", json!({})),
        notification("notifications/cancelled", json!({"requestId": "a"})),
        request(
            "a",
            "tools/call",
            json!({"name": "t", "arguments": {"x": [1, {"y": null}]}, "_meta": {"progressToken": 1}}),
        ),
        request(
            2,
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}, "context": {"arguments": {}}}),
        ),
        request(3, "resources/subscribe", json!({"uri": "a:b"})),
        request(3, "logging/setLevel", json!({"level": "info"})),
        modern(4, "tools/call", json!({"name": "t", "requestState": "s", "inputResponses": {}})),
        modern(
            5,
            "subscriptions/listen",
            json!({"notifications": {"resourceSubscriptions": ["a:b"]}}),
        ),
        request(6, "tools/call", json!({"name": "t", "task": {"ttl": 5}})),
        request(7, "tasks/result", json!({"taskId": "a", "_meta": {"progressToken": 1}})),
        modern(8, "tasks/update", json!({"taskId": "a", "inputResponses": {"k": {}}})),
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "no"}}),
        json!([request(1, "ping", json!({})), 5]),
    ]
}

/// Processes a received message, as a transport does.
fn process(received: Received) {
    match received {
        Received::Call(request, codec) => {
            let mut out = Vec::new();
            let _ = (request.target(), request.cursor(), request.limit(), request.peer());
            codec.encode(&Outcome::Complete(Reply::Discover(Box::new(discovery()))), &mut out);
            assert!(codec.is_silent() || parse(&out).is_object());
        }
        Received::Reply(bytes, status, _) => {
            assert!(parse(&bytes).is_object() && status >= 200);
        }
        Received::Batch(each) => each.into_iter().for_each(process),
        _ => {}
    }
}

fn process_all(messages: impl IntoIterator<Item = Vec<u8>> + Clone) {
    for version in ["", "2025-03-26", "2025-11-25"] {
        let mut connection = connection();
        if !version.is_empty() {
            open(&mut connection, version);
        }
        for message in messages.clone() {
            process(connection.receive(message.into()));
            assert!(answers_ping(&mut connection));
        }
    }
}

/// Returns whether the connection still answers a ping.
fn answers_ping(connection: &mut wharf_wire::Connection) -> bool {
    let (answer, _) = reply(receive(connection, &request("still", "ping", json!({}))));
    answer["id"] == "still"
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_do_not_panic(messages in vec(vec(any::<u8>(), 0..200), 1..5)) {
        process_all(messages);
    }

    #[test]
    fn arbitrary_json_does_not_panic(value in json_value()) {
        process_all([value.to_string().into_bytes()]);
    }

    #[test]
    fn mutated_messages_do_not_panic(
        order in vec(0..12usize, 1..8),
        changes in vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 0..6),
    ) {
        let messages = valid_messages();
        let mut connection = connection();
        for (turn, index) in order.into_iter().enumerate() {
            let mut bytes = messages[index].to_string().into_bytes();
            if let Some((place, byte, how)) = changes.get(turn) {
                let at = place.index(bytes.len());
                match how {
                    0 => bytes[at] = *byte,
                    1 => drop(bytes.remove(at)),
                    2 => bytes.insert(at, *byte),
                    _ => bytes.truncate(at),
                }
            }
            process(connection.receive(bytes.into()));
            prop_assert!(answers_ping(&mut connection));
        }
    }

    #[test]
    fn mutated_members_do_not_panic(
        index in 0..12usize,
        key in select(vec!["jsonrpc", "id", "method", "params", "result", "error"]),
        inner in select(vec!["name", "uri", "_meta", "cursor", "limit", "arguments", "notifications", "requestId", "level", "protocolVersion", "capabilities"]),
        value in json_value(),
        deep in any::<bool>(),
    ) {
        let mut message = valid_messages().swap_remove(index);
        if message.is_object() {
            match deep && message["params"].is_object() {
                true => message["params"][inner] = value,
                false => message[key] = value,
            }
        }
        process_all([message.to_string().into_bytes()]);
    }

    #[test]
    fn lines_are_the_same_however_they_arrive(
        bytes in vec(select(b"abc\r\n\n\n ".to_vec()), 0..300),
        cuts in vec(1..20usize, 1..50),
        limit in 1..12usize,
    ) {
        let whole = {
            let mut lines = Lines::new(limit);
            lines.push(&bytes);
            let mut found: Vec<Line> = std::iter::from_fn(|| lines.next()).collect();
            found.extend(lines.finish());
            found
        };
        let mut lines = Lines::new(limit);
        let mut found = Vec::new();
        let mut rest = &bytes[..];
        for cut in cuts.iter().cycle() {
            let (now, later) = rest.split_at((*cut).min(rest.len()));
            lines.push(now);
            found.extend(std::iter::from_fn(|| lines.next()));
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        found.extend(lines.finish());
        prop_assert_eq!(&found, &whole);
        let naive = bytes.split(|byte| *byte == b'\n').map(|it| it.strip_suffix(b"\r").unwrap_or(it));
        let naive = naive.filter(|it| it.len() > limit || !it.trim_ascii().is_empty());
        prop_assert_eq!(found.len(), naive.count());
    }

    #[test]
    fn arbitrary_notifications_do_not_panic(method in text(), params in json_value()) {
        for method in [&*method, "notifications/progress", "notifications/message"] {
            decode(&client_codec(revision(MODERN)), &notification(method, params.clone()));
        }
    }

    #[test]
    fn arbitrary_results_do_not_panic(result in json_value(), method in method()) {
        for revision in Revision::ALL {
            let _ = client_codec(revision).result(method, &result.to_string());
        }
    }

    #[test]
    fn encoded_calls_are_decoded_unchanged(
        method in method(),
        target in text(),
        arguments in option::of(json_object()),
        cursor in option::of(text()),
        limit in option::of(any::<u64>()),
        state in option::of(text()),
        meta in option::of(json_object()),
        progress in any::<bool>(),
        level in option::of(select(LogLevel::ALL.to_vec())),
        id in any::<u64>(),
    ) {
        let mut builder = RequestBuilder::new(method);
        if method.info().mirrored.is_some() {
            builder = builder.target(&target);
        }
        if let Some(arguments) = &arguments {
            builder = builder.arguments(&arguments.to_string());
        }
        if let Some(cursor) = &cursor {
            builder = builder.cursor(cursor);
        }
        if let Some(limit) = limit {
            builder = builder.limit(limit);
        }
        if let Some(state) = &state {
            builder = builder.request_state(state).input_responses("{\"k\":{}}");
        }
        if let Some(meta) = &meta {
            builder = builder.meta(&meta.to_string());
        }
        let mut original = builder.build();
        original.progress = progress;
        original.log_level = level;
        if method == Method::Listen {
            original.filter = Some(Default::default());
        }
        for revision in Revision::ALL {
            read_back(&original, revision, id);
        }
    }

    #[test]
    fn tool_results_are_read_back(
        contents in vec(content(), 0..4),
        structured in option::of(json_value()),
        is_error in any::<bool>(),
        meta in option::of(json_object()),
    ) {
        let mut result = ToolResult::new(contents);
        result.structured = structured.map(|it| JsonText::of(&it).unwrap());
        result.is_error = is_error;
        result.meta = meta.and_then(|it| it.as_object().cloned()).filter(|it| !it.is_empty()).map(|it| Box::new(it.into()));
        let Reply::Tool(read) = round_trip(Method::CallTool, json!({"name": "t"}), Reply::Tool(result.clone())) else { panic!() };
        prop_assert_eq!(read, result);
    }

    #[test]
    fn other_results_are_read_back(
        contents in vec((text(), text(), any::<bool>()), 0..4),
        said in vec(content(), 0..4),
        description in option::of(text()),
        ttl in any::<u64>(),
        values in vec(text(), 0..5),
    ) {
        let contents = contents.into_iter().map(|(uri, body, blob)| match blob {
            true => ResourceContents::blob(uri, body),
            false => ResourceContents::text(uri, body).mime_type("text/plain"),
        });
        let read = ReadResult::new(contents).cache(CacheHint::public(ttl));
        let Reply::Read(again) = round_trip(Method::ReadResource, json!({"uri": "a:b"}), Reply::Read(read.clone())) else { panic!() };
        prop_assert_eq!(again, read);
        let mut prompt = PromptResult::new(said.into_iter().map(PromptMessage::assistant));
        prompt.description = description;
        let Reply::Prompt(again) = round_trip(Method::GetPrompt, json!({"name": "p"}), Reply::Prompt(prompt.clone())) else { panic!() };
        prop_assert_eq!(again, prompt);
        let completion = Completion::new(values).with_meta("com.example/k", 1);
        let Reply::Completion(again) = round_trip(Method::Complete, json!({}), Reply::Completion(completion.clone())) else { panic!() };
        prop_assert_eq!(again, completion);
    }

    #[test]
    fn lists_are_read_back(names in vec(text(), 0..5), next in option::of(text()), ttl in any::<u64>(), schema in json_object()) {
        macro_rules! lists {
            ($($method:ident $reply:ident $make:expr;)*) => {$(
                let items: Vec<_> = names.iter().map($make).collect();
                let sent = page(items.clone(), next.clone(), ttl);
                let Reply::$reply(again) = round_trip(Method::$method, json!({}), Reply::$reply(sent)) else { panic!() };
                prop_assert_eq!(again.items().iter().map(|it| (**it).clone()).collect::<Vec<_>>(), items);
                prop_assert_eq!(again.next, next.clone());
                prop_assert_eq!(again.cache, CacheHint::private(ttl));
            )*};
        }
        lists! {
            ListTools Tools |name| ToolInfo::new(name.clone(), schema.clone()).description("d");
            ListResources Resources |name| ResourceInfo::new("a:b", name.clone()).size(4u64);
            ListTemplates Templates |name| TemplateInfo::new("a:{b}", name.clone());
            ListPrompts Prompts |name| PromptInfo::new(name.clone()).title("t");
        }
    }

    #[test]
    fn client_requests_are_read_back(keys in prop::collection::hash_set(text(), 1..4), message in text(), state in option::of(text()), schema in json_object()) {
        let asks = [
            wharf_model::ClientRequest::Elicit(Box::new(ElicitForm::new(message.clone(), schema))),
            wharf_model::ClientRequest::ElicitUrl(Box::new(ElicitUrl::new(message.clone(), "https://x/y"))),
            wharf_model::ClientRequest::Sample(Box::new(SamplingRequest::new(5).message(SamplingMessage::user(message)))),
            wharf_model::ClientRequest::Roots,
        ];
        let requests = keys.into_iter().zip(asks).collect();
        let input = InputRequired::new(requests, state);
        let mut out = Vec::new();
        let able = json!({"roots": {}, "sampling": {}, "elicitation": {"form": {}, "url": {}}});
        codec_for(MODERN, able, "tools/call", json!({"name": "t"})).encode(&Outcome::InputRequired(Box::new(input.clone())), &mut out);
        let result = parse(&out)["result"].to_string();
        // A tree of values does not keep the order, so the written bytes are read.
        let text = String::from_utf8(out).unwrap();
        let start = text.find("{\"resultType\"").unwrap();
        let Outcome::InputRequired(again) = client_codec(revision(MODERN)).result(Method::CallTool, &text[start..text.len() - 1]).unwrap() else { panic!("{result}") };
        prop_assert_eq!(*again, input);
    }
}

#[test]
fn a_result_of_an_unknown_type_is_invalid() {
    let read = |result: &str| client_codec(revision(MODERN)).result(Method::CallTool, result);
    assert!(read(r#"{"resultType":"future","content":[]}"#).is_err());
    assert!(matches!(read(r#"{"content":[]}"#), Ok(Outcome::Complete(Reply::Tool(_)))));
    assert!(matches!(read(r#"{"resultType":"complete","content":[]}"#), Ok(Outcome::Complete(_))));
    let input = r#"{"resultType":"input_required","requestState":"x"}"#;
    assert!(matches!(read(input), Ok(Outcome::InputRequired(_))));
    assert!(client_codec(revision(MODERN)).result(Method::ListTools, input).is_err());
    // The method determines the type of a result, whatever its content.
    assert!(client_codec(revision(MODERN)).result(Method::ListTools, r#"{"content":[]}"#).is_err());
    let legacy = client_codec(Revision::NEWEST_LEGACY)
        .result(Method::CallTool, r#"{"resultType":"future","content":[]}"#);
    assert!(legacy.is_ok());
}

fn method() -> impl Strategy<Value = Method> {
    use Method::*;
    select(vec![
        Discover,
        ListTools,
        CallTool,
        ListResources,
        ListTemplates,
        ReadResource,
        ListPrompts,
        GetPrompt,
        Complete,
        Listen,
    ])
}

fn content() -> impl Strategy<Value = Content> {
    let dress = |(item, hints, meta): (Content, Option<i8>, Option<Value>)| {
        let item = match hints {
            Some(hints) => item.priority(f64::from(hints) / 4.0),
            None => item,
        };
        match meta {
            Some(meta) => item.with_meta("com.example/k", meta),
            None => item,
        }
    };
    let bare = prop_oneof![
        text().prop_map(Content::text),
        (vec(any::<u8>(), 0..9), text()).prop_map(|(data, mime)| Content::image(data, mime)),
        (vec(any::<u8>(), 0..9), text()).prop_map(|(data, mime)| Content::audio(data, mime)),
        (text(), text()).prop_map(|(uri, name)| Content::link(uri, name)),
        (text(), text())
            .prop_map(|(uri, body)| Content::resource(ResourceContents::text(uri, body))),
    ];
    (bare, option::of(any::<i8>()), option::of(json_value())).prop_map(dress)
}

fn page<T>(items: Vec<T>, next: Option<String>, ttl: u64) -> Page<T> {
    let body = Arc::new(PageBody::new(items.into_iter().map(Arc::new).collect()));
    Page::new(body).next(next).cache(CacheHint::private(ttl))
}

/// Encodes and decodes a reply.
fn round_trip(method: Method, params: Value, reply: Reply) -> Reply {
    let mut out = Vec::new();
    codec(MODERN, method.name(), params).encode(&Outcome::Complete(reply), &mut out);
    let text = std::str::from_utf8(&out).unwrap();
    let start = text.find("{\"resultType\"").unwrap();
    match client_codec(revision(MODERN)).result(method, &text[start..text.len() - 1]).unwrap() {
        Outcome::Complete(reply) => reply,
        other => panic!("{other:?}"),
    }
}

fn read_back(original: &Request, revision: Revision, id: u64) {
    let mut out = Vec::new();
    let id = CallId::from(id);
    let written = client_codec(revision).call(original, &id, &mut out);
    if matches!(original.method, Method::Listen | Method::Discover) && revision.era() == Era::Legacy
    {
        assert!(written.unwrap_err().kind.is_method_not_found() && out.is_empty());
        return;
    }
    // Only modern servers return a state: without it, the call would start again.
    if original.request_state().is_some() && revision.era() == Era::Legacy {
        assert!(written.unwrap_err().kind.is_invalid_params() && out.is_empty());
        return;
    }
    parse(&out);
    let wire = Arc::new(wire());
    let (read, codec) = call(wire.receive(out.into(), Some(revision)));
    let same = |one: Option<&str>, other: Option<&str>| {
        let value = |text: Option<&str>| text.map(|it| serde_json::from_str::<Value>(it).unwrap());
        assert_eq!(value(one), value(other));
    };
    assert_eq!((read.method, read.target()), (original.method, original.target()));
    same(Some(read.arguments()), Some(original.arguments()));
    assert_eq!((read.cursor(), read.limit()), (original.cursor(), original.limit()));
    assert_eq!(codec.id(), id);
    if revision.era() == Era::Modern {
        assert_eq!(read.request_state(), original.request_state());
        same(read.input_responses(), original.input_responses());
        assert_eq!(read.log_level, original.log_level);
    } else {
        assert!(read.request_state().is_none() && read.input_responses().is_none());
    }
    assert!(read.progress || !original.progress);
    let meta: Value = serde_json::from_str(original.meta().unwrap_or("{}")).unwrap();
    let sent: Value = serde_json::from_str(read.meta().unwrap_or("{}")).unwrap();
    for (key, value) in meta.as_object().unwrap() {
        assert_eq!(&sent[key], value);
    }
}
