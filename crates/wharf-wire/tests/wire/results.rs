//! Results, in every revision.

use std::sync::Arc;

use serde_json::{Value, json, value::RawValue};
use wharf_model::{
    Annotations, CacheHint, Completion, Content, Execution, Icon, LazyJson, Meta, Outcome, Page,
    PageBody, PromptArgument, PromptInfo, PromptMessage, PromptResult, ReadResult, Reply,
    ResourceContents, ResourceInfo, Role, TaskSupport, TemplateInfo, ToolAnnotations, ToolInfo,
    ToolResult,
};

use crate::{common::*, legacy_schema_fields};

fn meta() -> Option<Box<LazyJson<Meta>>> {
    Some(Box::new(json!({"com.example/k": 1}).as_object().unwrap().clone().into()))
}

fn page<T>(items: Vec<T>) -> Page<T> {
    Page::new(Arc::new(PageBody::new(items.into_iter().map(Arc::new).collect())))
        .next(Some("more".into()))
        .cache(CacheHint::public(1000))
        .meta(meta())
}

fn hints() -> Annotations {
    Annotations::default().audience(Role::User).priority(0.5).last_modified("2025-01-01T00:00:00Z")
}

fn full_tool() -> ToolInfo {
    let mut tool = ToolInfo::new("t", json!({"type": "object", "properties": {"any": true, "none": false, "deep": {"properties": {"x": true}}}, "additionalProperties": false}))
        .title("T")
        .description("d")
        .output_schema(json!({"type": "object", "properties": {"any": true}}))
        .annotations(ToolAnnotations::default().title("A").read_only(true))
        .icon(Icon::new("https://x/y.png"))
        .execution(Execution::default().task_support(TaskSupport::Optional));
    tool.meta = meta();
    tool
}

fn full_resource() -> ResourceInfo {
    let mut it = ResourceInfo::new("a:b", "r").title("R").description("d").mime_type("text/plain");
    it = it.icon(Icon::new("https://x/y.png")).annotations(hints()).size(3u64);
    it.meta = meta();
    it
}

fn full_contents() -> Vec<Content> {
    let mut resource = ResourceContents::blob("a:b", "x").mime_type("image/png");
    resource.meta = meta();
    let dressed = |it: Content| {
        it.audience(Role::User).last_modified("2025-01-01T00:00:00Z").with_meta("com.example/k", 1)
    };
    vec![
        Content::text("plain"),
        dressed(Content::text("t\n\"")),
        Content::image("x", "image/png"),
        dressed(Content::image("x", "image/png")),
        Content::audio("x", "audio/wav"),
        dressed(Content::audio("x", "audio/wav")),
        dressed(Content::Link(Box::new(full_resource()))),
        dressed(Content::resource(resource)),
    ]
}

fn full_prompt() -> PromptInfo {
    let argument = PromptArgument::new("a").title("A").description("d").required(true);
    let mut it = PromptInfo::new("p").title("P").description("d").argument(argument);
    it = it.icon(Icon::new("https://x/y.png"));
    it.meta = meta();
    it
}

/// Returns a reply for each method, with all fields.
fn every_reply() -> Vec<(&'static str, &'static str, Value, Outcome)> {
    let template = || {
        let mut it = TemplateInfo::new("a:{b}", "t").title("T").description("d").mime_type("x/y");
        it = it.icon(Icon::new("https://x/y.png")).annotations(hints());
        it.meta = meta();
        it
    };
    let mut called = ToolResult::new(full_contents());
    called.structured = Some(RawValue::from_string("{\n\"a\": 1\r\n}".into()).unwrap().into());
    called.meta = meta();
    called.is_error = true;
    let mut contents = ResourceContents::text("a:b", "x").mime_type("text/plain");
    contents.meta = meta();
    let mut read = ReadResult::new([contents, ResourceContents::blob("a:c", "y")]);
    read.meta = meta();
    let mut prompt = PromptResult::new(full_contents().into_iter().map(PromptMessage::user));
    prompt = prompt.description("d");
    prompt.meta = meta();
    vec![
        (
            "tools/list",
            "ListResult",
            json!({}),
            Reply::Tools(page(vec![full_tool(), full_tool()])).into(),
        ),
        (
            "resources/list",
            "ListResult",
            json!({}),
            Reply::Resources(page(vec![full_resource()])).into(),
        ),
        (
            "resources/templates/list",
            "ListResult",
            json!({}),
            Reply::Templates(page(vec![template()])).into(),
        ),
        ("prompts/list", "ListResult", json!({}), Reply::Prompts(page(vec![full_prompt()])).into()),
        ("tools/call", "CallResult", json!({"name": "t"}), called.into()),
        ("resources/read", "ReadResult", json!({"uri": "a:b"}), Reply::Read(read).into()),
        ("prompts/get", "PromptResult", json!({"name": "p"}), Reply::Prompt(prompt).into()),
        (
            "completion/complete",
            "CompleteResult",
            json!({}),
            Reply::Completion(Completion::new(["a", "b"])).into(),
        ),
    ]
}

#[test]
fn legacy_results_have_only_fields_of_their_revision() {
    for version in LEGACY {
        for (method, shape, params, outcome) in every_reply() {
            let (message, status) = encoded(&codec(version, method, params), outcome);
            assert_eq!((status, &message["id"]), (200, &json!(7)));
            legacy_schema_fields::check(shape, &message["result"], version);
        }
    }
}

#[test]
fn modern_results_have_the_required_metadata() {
    for (method, _, params, outcome) in every_reply() {
        let (message, status) = encoded(&codec(MODERN, method, params), outcome);
        let result = &message["result"];
        assert_eq!((status, &result["resultType"]), (200, &json!("complete")), "{method}");
        let server = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(server, &json!({"name": "harbour", "version": "1.0.0"}));
        let cacheable = method.ends_with("/list") || method == "resources/read";
        assert_eq!(result["ttlMs"].is_u64(), cacheable, "{method}");
        assert_eq!(result["cacheScope"].is_string(), cacheable, "{method}");
        if method != "completion/complete" {
            assert_eq!(result["_meta"]["com.example/k"], 1, "{method}");
        }
        if method == "resources/read" {
            assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("private")));
        } else if cacheable {
            assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(1000), &json!("public")));
        }
        if method == "tools/list" {
            let tool = &result["tools"][0];
            assert!(tool.get("execution").is_none(), "only 2025-11-25 has it");
            assert_eq!(tool["inputSchema"]["properties"]["any"], true);
            assert!(tool["icons"].is_array() && tool["_meta"].is_object());
        }
        if method == "tools/call" {
            assert_eq!(serde_json::to_value(full_contents()).unwrap(), result["content"]);
            assert_eq!(result["structuredContent"], json!({"a": 1}));
        }
    }
}

#[test]
fn users_cannot_override_protocol_metadata() {
    let mut result = ToolResult::text("x");
    result.meta = Some(Box::new(
        json!({"io.modelcontextprotocol/serverInfo": {"name": "fake"}, "a\"b": 1})
            .as_object()
            .unwrap()
            .clone()
            .into(),
    ));
    let (message, _) = encoded(&codec(MODERN, "tools/call", json!({"name": "t"})), result);
    let meta = &message["result"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/serverInfo"]["name"], "harbour");
    assert_eq!(meta["a\"b"], 1);
}

#[test]
fn discovery_lists_every_revision_and_the_whole_server_info() {
    let outcome = Reply::Discover(Box::new(discovery()));
    let (message, _) = encoded(&codec(MODERN, "server/discover", json!({})), outcome);
    let result = &message["result"];
    let dates: Vec<&str> = modern_dates().into_iter().chain(LEGACY.into_iter().rev()).collect();
    assert_eq!(result["supportedVersions"], json!(dates));
    let server = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!((&server["title"], &server["description"]), (&json!("Harbour"), &json!("Ships")));
    assert_eq!(result["capabilities"]["extensions"], json!({"com.example/x": {}}));
    assert_eq!(result["instructions"], "Be kind");
    assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("private")));
}

#[test]
fn results_that_depend_on_input_are_not_cached() {
    let read = |more: Value| {
        let mut params = json!({"uri": "a:b"});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let result = ReadResult::new([]).cache(CacheHint::public(1000));
        let (message, _) = encoded(&codec(MODERN, "resources/read", params), Reply::Read(result));
        (message["result"]["ttlMs"].clone(), message["result"]["cacheScope"].clone())
    };
    assert_eq!(read(json!({})), (json!(1000), json!("public")));
    for more in [json!({"requestState": "s"}), json!({"inputResponses": {}})] {
        assert_eq!(read(more), (json!(0), json!("private")));
    }
}

#[test]
fn schemas_are_translated_for_legacy() {
    for version in LEGACY {
        let tools = vec![
            full_tool(),
            ToolInfo::without_parameters("u").output_schema(json!({"type": "array"})),
            ToolInfo::new(
                "v",
                json!({"type": "object", "dependencies": {"a": true, "b": ["c"]}, "properties": {"d": {"contentSchema": true}}}),
            ),
        ];
        let (message, _) =
            encoded(&codec(version, "tools/list", json!({})), Reply::Tools(page(tools)));
        let tools = &message["result"]["tools"];
        assert_eq!(
            tools[0]["inputSchema"],
            json!({
                "type": "object", "properties": {"any": {}, "none": {"not": {}}, "deep": {"properties": {"x": {}}}},
                "additionalProperties": false,
            })
        );
        let has_output = version >= "2025-06-18";
        assert_eq!(tools[0].get("outputSchema").is_some(), has_output, "{version}");
        if has_output {
            assert_eq!(tools[0]["outputSchema"]["properties"]["any"], json!({}));
        }
        let wrapped = json!({"type": "object", "properties": {"result": {"type": "array"}}, "required": ["result"]});
        assert_eq!(tools[1].get("outputSchema"), has_output.then_some(&wrapped), "{version}");
        assert_eq!(tools[2]["inputSchema"]["dependencies"], json!({"a": {}, "b": ["c"]}));
        assert_eq!(tools[2]["inputSchema"]["properties"]["d"], json!({"contentSchema": {}}));
        assert_eq!(tools[1]["inputSchema"]["additionalProperties"], false);
        assert_eq!(tools[0].get("execution").is_some(), version == "2025-11-25");
    }
}

/// Returns an output schema and a value as a legacy client receives them.
fn legacy_output(schema: &Value, value: &Value) -> (Value, Value) {
    let version = "2025-11-25";
    let tool = ToolInfo::without_parameters("t").output_schema(schema.clone());
    let list = Reply::Tools(page(vec![tool]));
    let (listed, _) = encoded(&codec(version, "tools/list", json!({})), list);
    let mut result = ToolResult::default();
    result.structured = Some(RawValue::from_string(value.to_string()).unwrap().into());
    let (called, _) = encoded(&codec(version, "tools/call", json!({"name": "t"})), result);
    let schema = listed["result"]["tools"][0]["outputSchema"].clone();
    (schema, called["result"]["structuredContent"].clone())
}

#[test]
fn output_of_any_type_fits_the_schema_that_legacy_clients_get() {
    let tree = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "array",
        "items": {"anyOf": [{"$ref": "#"}, {"$ref": "#/$defs/leaf"}]},
        "$defs": {"leaf": {"type": "string"}}, "default": [{"$ref": "#/x"}]});
    let tagged = json!({"oneOf": [{"$ref": "#/$defs/a"}, {"type": "object", "required": ["b"]}],
        "$defs": {"a": {"type": "object", "required": ["a"]}}});
    let optional = json!({"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}],
        "$defs": {"a": {"type": "object", "required": ["a"], "properties": {"next": {"$ref": "#"}}}}});
    let named = json!({"$id": "https://x.test/s", "type": "integer", "allOf": [{"$ref": "#/$defs/a"}],
        "$defs": {"a": {"minimum": 1}}});
    for (schema, good, bad) in [
        (&tree, json!(["a", ["b"]]), json!(["a", [1]])),
        (&tagged, json!({"b": 1}), json!({})),
        (&optional, json!({"a": 1, "next": null}), json!({"a": 1, "next": 2})),
        (&optional, json!(null), json!(7)),
        (&named, json!(1), json!(0)),
        (&json!({"type": ["object", "string"], "required": ["a"]}), json!("x"), json!(1)),
        (&json!({"enum": [1, 2]}), json!(2), json!(3)),
        (&json!({"const": {"a": 1}}), json!({"a": 1}), json!({"a": 2})),
        (&json!({"type": "object", "required": ["a"]}), json!({"a": 1}), json!({})),
    ] {
        let (legacy, structured) = legacy_output(schema, &good);
        assert_eq!(legacy["type"], "object", "{legacy}");
        let compiled = jsonschema::options().offline().build(&legacy).unwrap();
        assert!(structured.is_object() && compiled.is_valid(&structured), "{structured} {legacy}");
        let (_, structured) = legacy_output(schema, &bad);
        assert!(!compiled.is_valid(&structured), "{structured} {legacy}");
    }
    let (legacy, _) = legacy_output(&tree, &json!([]));
    assert_eq!(legacy["$schema"], tree["$schema"]);
    let natural = &legacy["properties"]["result"];
    assert_eq!(natural["items"]["anyOf"][0]["$ref"], "#/properties/result");
    assert_eq!(natural["items"]["anyOf"][1]["$ref"], "#/properties/result/$defs/leaf");
    assert_eq!(natural["default"], tree["default"]);
    assert_eq!(legacy_output(&tagged, &json!({})).0["oneOf"], tagged["oneOf"]);
}

#[test]
fn structured_content_by_revision() {
    for (json, is_object) in [("{\"a\":1}", true), ("[1]", false), ("5", false), ("null", false)] {
        for version in LEGACY.into_iter().chain([MODERN]) {
            let value: Value = serde_json::from_str(json).unwrap();
            let as_is = version == MODERN || (is_object && version >= "2025-06-18");
            let structured = match as_is {
                true => Some(value),
                false => (version >= "2025-06-18").then(|| json!({"result": value})),
            };
            let mut result = ToolResult::default();
            result.structured = Some(RawValue::from_string(json.into()).unwrap().into());
            let (message, _) = encoded(&codec(version, "tools/call", json!({"name": "t"})), result);
            let result = &message["result"];
            assert_eq!(result.get("structuredContent"), structured.as_ref(), "{version} {json}");
            // Values that cannot be carried unchanged are present as text.
            let text = if as_is { json!([]) } else { json!([{"type": "text", "text": json}]) };
            assert_eq!(result["content"], text, "{version} {json}");
        }
    }
}

#[test]
fn content_that_a_revision_does_not_have_is_translated() {
    let result = || {
        ToolResult::new([
            Content::audio("x", "audio/wav").priority(1.0),
            Content::link("a:b", "name").priority(1.0),
        ])
    };
    for version in LEGACY.into_iter().chain([MODERN]) {
        let (message, _) = encoded(&codec(version, "tools/call", json!({"name": "t"})), result());
        let content = &message["result"]["content"];
        if version == "2024-11-05" {
            assert_eq!(content[0]["type"], "resource");
            assert_eq!(content[0]["resource"]["blob"], "eA==");
            assert_eq!(content[0]["resource"]["mimeType"], "audio/wav");
        } else {
            assert_eq!(content[0]["type"], "audio");
        }
        if version < "2025-06-18" {
            assert_eq!(
                content[1],
                json!({"type": "text", "text": "[name](a:b)", "annotations": {"priority": 1.0}})
            );
        } else {
            assert_eq!(content[1]["type"], "resource_link");
        }
        assert_eq!(content[0]["annotations"]["priority"], 1.0);
    }
}

#[test]
fn unknown_content_is_carried() {
    let unknown: Content = serde_json::from_value(json!({"type": "hologram", "data": 1})).unwrap();
    for version in LEGACY.into_iter().chain([MODERN]) {
        let result = ToolResult::new([unknown.clone()]);
        let (message, _) = encoded(&codec(version, "tools/call", json!({"name": "t"})), result);
        assert_eq!(message["result"]["content"][0], json!({"type": "hologram", "data": 1}));
    }
}

#[test]
fn items_are_encoded_once_a_revision() {
    let page = page(vec![full_tool()]);
    let bytes =
        |version| encoded(&codec(version, "tools/list", json!({})), Reply::Tools(page.clone())).0;
    let first = bytes("2024-11-05");
    assert_ne!(first["result"]["tools"], bytes("2025-11-25")["result"]["tools"]);
    let mut asked = 0;
    let slot = page.body.memo.get(0, || {
        asked += 1;
        Default::default()
    });
    assert_eq!(asked, 0, "the memo was filled by the first encoding");
    assert_eq!(parse(&slot), first["result"]["tools"]);
}

#[test]
fn a_modern_subscription_from_begin_to_end() {
    let filter =
        json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": ["a:b"]}});
    let mut connection = connection();
    let (request, codec) =
        call(receive(&mut connection, &modern("L\n1", "subscriptions/listen", filter)));
    assert!(
        request
            .filter
            .as_ref()
            .unwrap()
            .read(|it| it.tools && !it.prompts && it.uris.contains("a:b"))
    );
    let (message, _) = encoded(&codec, Reply::Listened);
    assert_eq!(message["result"]["resultType"], "complete");
    assert_eq!(message["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "L\n1");
    let mut out = Vec::new();
    assert!(codec.write_listen_end(&mut out));
    assert_eq!(parse(&out)["params"]["requestId"], "L\n1");
    assert_eq!(parse(&out)["method"], "notifications/cancelled");
}
