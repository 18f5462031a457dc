//! Every property of a primitive, and every kind of handler.

use std::time::Duration;

use crate::support::*;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use wharf_model::{
    Completion, CompletionRequest, Content, Error, ErrorKind, Icon, Method, Outcome, Reply, Role,
    ToolResult,
};
use wharf_server::{
    Args, ClientRequestError, Json, Prompt, RawArgs, Resource, Router, Tool, ToolError,
};

#[derive(Deserialize, JsonSchema)]
struct Search {
    r#type: String,
    limit: Option<u32>,
    #[serde(default = "ten")]
    page_size: u32,
}

fn ten() -> u32 {
    10
}

/// The first item of a list, as clients see it.
fn first(router: &Router, method: Method) -> Value {
    match now(router, list(method)) {
        Outcome::Complete(Reply::Tools(page)) => json!(**page.items().first().unwrap()),
        Outcome::Complete(Reply::Templates(page)) => json!(**page.items().first().unwrap()),
        Outcome::Complete(Reply::Prompts(page)) => json!(**page.items().first().unwrap()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_tool_lists_all_of_its_properties() {
    let tool = Tool::inline("search", |Args(it): Args<Search>| {
        Json(json!([it.r#type, it.limit, it.page_size]))
    });
    let tool = tool
        .title("Search")
        .description("Finds things.")
        .icon(Icon::new("https://example.com/i.png"))
        .read_only()
        .destructive()
        .idempotent()
        .closed_world()
        .meta("com.example/k", json!({"v": 1}));
    let router = Router::builder().add(tool).build().unwrap();
    assert_eq!(
        first(&router, Method::ListTools),
        json!({
            "name": "search", "title": "Search", "description": "Finds things.",
            "icons": [{"src": "https://example.com/i.png"}],
            "annotations": {"readOnlyHint": true, "destructiveHint": true, "idempotentHint": true,
                "openWorldHint": false},
            "inputSchema": {
                "type": "object",
                "properties": {
                    "type": {"type": "string"},
                    "limit": {"type": ["integer", "null"], "minimum": 0},
                    "page_size": {"type": "integer", "minimum": 0,
                        "default": 10},
                },
                "required": ["type"],
            },
            "_meta": {"com.example/k": {"v": 1}},
        })
    );
    let found = |arguments: &str| {
        let result = tool_of(now(&router, call("search", arguments)));
        result.structured.unwrap().get().to_owned()
    };
    assert_eq!(found(r#"{"type":"a"}"#), r#"["a",null,10]"#);
    assert_eq!(found(r#"{"type":"a","limit":null,"page_size":2.0}"#), r#"["a",null,2]"#);
    assert_eq!(found(r#"{"type":"a","limit":3}"#), r#"["a",3,10]"#);
}

fn tool_of(outcome: Outcome) -> ToolResult {
    crate::support::tool(outcome)
}

#[derive(Deserialize, JsonSchema)]
struct Note {
    name: String,
}

#[test]
fn a_template_and_a_prompt_list_all_of_their_properties() {
    let icon = || Icon::new("https://example.com/i.png");
    let router = Router::builder()
        .add(
            Resource::inline("n://{name}", |Args(note): Args<Note>| note.name)
                .name("notes")
                .title("Notes")
                .description("All notes.")
                .icon(icon())
                .audience(Role::Assistant)
                .last_modified("2026-01-01")
                .meta("k", 1),
        )
        .add(
            Prompt::inline("greet", |Args(note): Args<Note>| note.name)
                .title("Greet")
                .description("Greets.")
                .icon(icon())
                .meta("k", 2),
        )
        .build()
        .unwrap();
    let icons = json!([{"src": "https://example.com/i.png"}]);
    assert_eq!(
        first(&router, Method::ListTemplates),
        json!({"uriTemplate": "n://{name}", "name": "notes", "title": "Notes",
            "description": "All notes.", "icons": icons, "_meta": {"k": 1},
            "annotations": {"audience": ["assistant"], "lastModified": "2026-01-01"}})
    );
    assert_eq!(
        first(&router, Method::ListPrompts),
        json!({"name": "greet", "title": "Greet", "description": "Greets.", "icons": icons,
            "arguments": [{"name": "name", "required": true}], "_meta": {"k": 2}})
    );
}

#[test]
fn a_runtime_tool_with_an_output_schema_is_added_and_removed() {
    let router = Router::builder().build().unwrap();
    let registry = router.registry();
    let tool = |name: &str| {
        let schema = json!({"type": "object", "required": ["n"]});
        Tool::dynamic(name, schema.clone(), async |RawArgs(json): RawArgs| {
            ToolResult::json(&json).unwrap()
        })
        .output_schema(json!({"type": "object", "properties": {"n": {"type": "integer"}}}))
    };
    registry.add(tool("late")).unwrap();
    assert!(registry.add(tool("late")).unwrap_err().to_string().contains("`late`"));
    let result = tool_of(now(&router, call("late", r#"{"n":1}"#)));
    assert_eq!(result.structured.unwrap().get(), r#"{"n":1}"#);
    assert_eq!(kind(now(&router, call("late", r#"{"n":"x"}"#))), ErrorKind::OutputSchemaMismatch);
    assert_eq!(kind(now(&router, call("late", "{}"))), ErrorKind::InvalidToolArguments);
    assert!(registry.remove_tool("late") && !registry.remove_tool("late"));
    assert_eq!(kind(now(&router, call("late", "{}"))), ErrorKind::CapabilityNotSupported);
}

#[test]
fn content_carries_its_annotations_and_metadata() {
    let text = Content::text("a").audience(Role::User).priority(0.5).with_meta("k", 1);
    let router = Router::builder().add(Tool::inline("t", move || text.clone())).build().unwrap();
    assert_eq!(
        json!(tool_of(now(&router, call("t", "{}"))).content),
        json!([{"type": "text", "text": "a", "annotations": {"audience": ["user"], "priority": 0.5},
            "_meta": {"k": 1}}])
    );
}

#[tokio::test(start_paused = true)]
async fn prompts_and_resources_can_block_and_time_out() {
    async fn forever() -> &'static str {
        std::future::pending().await
    }
    let router = Router::builder()
        .add(Prompt::blocking("plain", || "p"))
        .add(Resource::blocking("x:plain", || "r"))
        .add(Prompt::new("slow", forever).timeout(Duration::from_secs(5)))
        .add(Resource::new("x:slow", forever).timeout(Duration::from_secs(5)))
        .build()
        .unwrap();
    assert_eq!(messages(done(start(&router, get("plain", "{}"))).await).messages.len(), 1);
    assert_eq!(contents(done(start(&router, read("x:plain"))).await).contents.len(), 1);
    for request in [get("slow", "{}"), read("x:slow")] {
        let started = tokio::time::Instant::now();
        assert_eq!(kind(done(start(&router, request)).await), ErrorKind::RequestTimeout);
        assert_eq!(started.elapsed().as_secs(), 5);
    }
}

#[test]
fn a_completion_has_at_most_a_hundred_values() {
    let many = |count: usize| move || (0..count).map(|n| n.to_string()).collect::<Vec<_>>();
    // A completion built by hand, beyond every limit.
    let by_hand = || {
        let mut completion = Completion::default();
        completion.values = vec!["x".into(); 101];
        completion
    };
    let prompt = |name: &str| Prompt::inline(name, |Args(note): Args<Note>| note.name);
    let router = Router::builder()
        .add(prompt("hundred").complete("name", many(100)))
        .add(prompt("more").complete("name", many(101)))
        .add(prompt("hand").complete("name", by_hand))
        .add(
            prompt("context")
                .complete("name", |it: CompletionRequest| vec![format!("{:?}", it.context)]),
        )
        .build()
        .unwrap();
    let ask = |name: &str| {
        let reference = json!({"type": "ref/prompt", "name": name}).to_string();
        completion(now(&router, complete(&reference, "name", "")))
    };
    let size = |it: Completion| (it.values.len(), it.total, it.has_more);
    assert_eq!(size(ask("hundred")), (100, Some(100), Some(false)));
    assert_eq!(size(ask("more")), (100, Some(101), Some(true)));
    assert_eq!(size(ask("hand")), (100, Some(101), Some(true)));
    let request = wharf_model::RequestBuilder::new(Method::Complete)
        .param("ref", r#"{"type":"ref/prompt","name":"context"}"#)
        .param("argument", r#"{"name":"name","value":""}"#)
        .param("context", r#"{"arguments":{"language":"rust"}}"#);
    assert_eq!(completion(now(&router, request.build())).values, [r#"{"language": "rust"}"#]);
}

/// A resource, a prompt and a completion that fail with this error.
fn failures<E>(fail: impl Fn() -> E + Clone + Send + Sync + 'static) -> [Error; 3]
where
    E: Into<ToolError> + 'static,
{
    let failing = |fail: &(dyn Fn() -> E + Send + Sync)| Err::<String, ToolError>(fail().into());
    let (read_fail, get_fail, complete_fail) = (fail.clone(), fail.clone(), fail);
    let prompt = Prompt::inline("p", move || failing(&get_fail));
    let template = Resource::inline("x:{type}{?limit,page_size}", |_: Args<Search>| "x")
        .complete("type", move |_: CompletionRequest| {
            failing(&complete_fail).map(|value| vec![value])
        });
    let router = Router::builder()
        .add(Resource::inline("x:r", move || failing(&read_fail)))
        .add(prompt)
        .add(template)
        .build()
        .unwrap();
    let reference = r#"{"type":"ref/resource","uri":"x:{type}{?limit,page_size}"}"#;
    [read("x:r"), get("p", "{}"), complete(reference, "type", "")]
        .map(|request| error(now(&router, request)))
}

#[test]
fn all_handlers_fail_with_the_same_errors() {
    for error in failures(|| Error::new(ErrorKind::RateLimited)) {
        assert_eq!(error.kind, ErrorKind::RateLimited);
    }
    for error in failures(|| ClientRequestError::Declined) {
        assert_eq!(error.kind, ErrorKind::ToolCancelled);
    }
    for error in failures(|| ToolError::new("closed on Sundays")) {
        assert_eq!(error.kind, ErrorKind::InternalError);
        assert_eq!(error.message, "closed on Sundays");
    }
    for error in failures(|| std::io::Error::other("hunter2")) {
        assert_eq!(error.kind, ErrorKind::InternalError);
        assert!(!error.message.contains("hunter2"), "{error}");
    }
}
