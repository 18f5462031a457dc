//! Resources, prompts and completions.

use crate::support::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use wharf_model::{
    Body, CacheHint, CompletionRequest, Content, Error, ErrorKind, Method, Outcome, PromptMessage,
    PromptResult, ReadResult, Reply, RequestBuilder, ResourceContents, Role,
};
use wharf_server::{Args, CallLimits, Json, Prompt, Resource, Router, State, ToolError, Uri};

#[derive(Deserialize, JsonSchema)]
struct Note {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Numbered {
    #[schemars(range(max = 10))]
    id: u32,
}

fn with(resource: Resource) -> Router {
    Router::builder().add(resource).build().unwrap()
}

fn one(outcome: Outcome) -> (Option<String>, Body) {
    let part = contents(outcome).contents.remove(0);
    (part.mime_type, part.body)
}

#[test]
fn contents_have_the_media_type_of_what_was_returned_or_declared() {
    let router = Router::builder()
        .add(Resource::new("x:text", async || "hi"))
        .add(Resource::new("x:bytes", async || vec![1_u8, 2]))
        .add(Resource::new("x:json", async || Json(json!({"a": 1}))))
        .add(Resource::new("x:markdown", async || "# hi").mime("text/markdown"))
        .add(Resource::new("x:png", async || vec![0x89_u8]).mime("image/png"))
        .build()
        .unwrap();
    let get = |uri: &str| one(now(&router, read(uri)));
    assert_eq!(get("x:text"), (Some("text/plain".into()), Body::Text("hi".into())));
    let octets = Some("application/octet-stream".into());
    assert_eq!(get("x:bytes"), (octets, Body::Blob("AQI=".into())));
    assert_eq!(get("x:json"), (Some("application/json".into()), Body::Text("{\"a\":1}".into())));
    assert_eq!(get("x:markdown").0.as_deref(), Some("text/markdown"));
    assert_eq!(get("x:png").0.as_deref(), Some("image/png"));
}

#[test]
fn a_directory_lists_parts_of_other_types() {
    let router = with(
        Resource::new("file:///d", async || {
            ReadResult::new([
                ResourceContents::text("file:///d", ""),
                ResourceContents::text("file:///d/a", "a").mime_type("text/plain"),
                ResourceContents::text("file:///d/b", "b"),
            ])
            .with_meta("k", "v")
        })
        .mime("inode/directory"),
    );
    let result = contents(now(&router, read("file:///d")));
    let types: Vec<_> = result.contents.iter().map(|it| it.mime_type.as_deref()).collect();
    assert_eq!(types, [Some("inode/directory"), Some("text/plain"), None]);
    assert_eq!(result.meta.unwrap()["k"], "v");
}

#[test]
fn templates_match_and_decode_before_the_type_reads() {
    let router = Router::builder()
        .add(Resource::new("note://{name}", async |Args(it): Args<Note>| it.name))
        .add(Resource::new("item://{id}", async |Args(it): Args<Numbered>| it.id.to_string()))
        .add(Resource::new("note://fixed", async || "static goes first"))
        .build()
        .unwrap();
    assert_eq!(one(now(&router, read("note://a%20b"))).1, Body::Text("a b".into()));
    assert_eq!(one(now(&router, read("note://fixed"))).1, Body::Text("static goes first".into()));
    assert_eq!(one(now(&router, read("item://7"))).1, Body::Text("7".into()));
    assert_eq!(kind(now(&router, read("item://x"))), ErrorKind::InvalidParams);
    assert_eq!(kind(now(&router, read("item://11"))), ErrorKind::InvalidParams, "range");
    assert_eq!(kind(now(&router, read("note://a/b"))), ErrorKind::ResourceNotFound);
}

#[test]
fn an_unknown_resource_names_its_uri() {
    let router = with(Resource::new("x:y", async |Uri(uri): Uri| uri));
    assert_eq!(one(now(&router, read("x:y"))).1, Body::Text("x:y".into()));
    let error = error(now(&router, read("x:z")));
    assert_eq!(error.kind, ErrorKind::ResourceNotFound);
    assert!(error.message.contains("x:z"));
    assert_eq!(error.data.unwrap()["uri"], "x:z");
}

#[test]
fn resource_errors_keep_their_kind_and_hide_internals() {
    let router = Router::builder()
        .add(Resource::new("x:io", async || Err::<String, _>(std::io::Error::other("/etc/secret"))))
        .add(Resource::new("x:none", async || None::<String>))
        .add(Resource::new("x:named", async || {
            Err::<String, _>(Error::new(ErrorKind::ResourceAccessDenied))
        }))
        .add(Resource::new("x:tool", async || Err::<String, _>(ToolError::new("said so"))))
        .build()
        .unwrap();
    let internal = error(now(&router, read("x:io")));
    assert_eq!(internal.kind, ErrorKind::InternalError);
    assert!(!internal.message.contains("secret"));
    assert_eq!(*internal.data.unwrap(), json!({"uri": "x:io"}));
    assert_eq!(kind(now(&router, read("x:none"))), ErrorKind::ResourceNotFound);
    assert_eq!(kind(now(&router, read("x:named"))), ErrorKind::ResourceAccessDenied);
    assert_eq!(error(now(&router, read("x:tool"))).message, "said so");
}

#[test]
fn the_length_of_uris_is_limited() {
    let limits = CallLimits::default().uri(20);
    let router = Router::builder()
        .limits(limits)
        .add(Resource::new("note://{name}", async |Args(it): Args<Note>| it.name))
        .build()
        .unwrap();
    let uri = format!("note://{}", "x".repeat(13));
    assert_eq!(uri.len(), 20);
    assert!(matches!(now(&router, read(&uri)), Outcome::Complete(_)));
    assert_eq!(kind(now(&router, read(&format!("{uri}x")))), ErrorKind::UriTooLong);
}

#[test]
fn a_read_has_its_cache_hint_unless_it_depends_on_responses() {
    let router = with(Resource::new("x:y", async || "y").cache(CacheHint::public(7)));
    assert_eq!(contents(now(&router, read("x:y"))).cache, Some(CacheHint::public(7)));
    let answered = RequestBuilder::new(Method::ReadResource).target("x:y").input_responses("{}");
    assert_eq!(contents(now(&router, answered.build())).cache, None);
}

#[test]
fn listed_resources_have_all_properties() {
    let router = Router::builder()
        .add(
            Resource::new("x:y", async || "y")
                .name("why")
                .title("Why")
                .description("Y.")
                .mime("text/plain")
                .audience(Role::User)
                .priority(0.5)
                .last_modified("2026-01-01")
                .size(1)
                .meta("k", 1),
        )
        .add(
            Resource::new("n://{name}", async |Args(it): Args<Note>| it.name)
                .name("notes")
                .mime("text/plain")
                .priority(1.0),
        )
        .build()
        .unwrap();
    let Outcome::Complete(Reply::Resources(page)) = now(&router, list(Method::ListResources))
    else {
        panic!()
    };
    assert_eq!(
        serde_json::to_value(&**page.items().first().unwrap()).unwrap(),
        json!({"uri": "x:y", "name": "why", "title": "Why", "description": "Y.",
            "mimeType": "text/plain", "size": 1, "_meta": {"k": 1},
            "annotations": {"audience": ["user"], "priority": 0.5, "lastModified": "2026-01-01"}})
    );
    let Outcome::Complete(Reply::Templates(page)) = now(&router, list(Method::ListTemplates))
    else {
        panic!()
    };
    assert_eq!(
        serde_json::to_value(&**page.items().first().unwrap()).unwrap(),
        json!({"uriTemplate": "n://{name}", "name": "notes", "mimeType": "text/plain",
            "annotations": {"priority": 1.0}})
    );
}

#[derive(Deserialize, JsonSchema)]
struct Review {
    /// What to review.
    code: String,
    language: Option<String>,
    depth: Option<u8>,
}

fn review() -> Prompt {
    Prompt::new("review", async |Args(it): Args<Review>| {
        format!("{} {} {}", it.code, it.language.unwrap_or_default(), it.depth.unwrap_or(0))
    })
}

fn prompts() -> Router {
    Router::builder().add(review()).build().unwrap()
}

fn first_message_text(outcome: Outcome) -> String {
    messages(outcome).messages[0].content.as_text().unwrap().to_owned()
}

#[test]
fn prompt_arguments_come_from_the_signature() {
    let prompt = review().argument_title("code", "Code");
    assert_eq!(
        serde_json::to_value(&prompt.info().arguments).unwrap(),
        json!([
            {"name": "code", "title": "Code", "description": "What to review.", "required": true},
            {"name": "language"}, {"name": "depth"},
        ])
    );
}

#[test]
fn prompt_arguments_are_strings_read_as_their_types() {
    let router = prompts();
    let full = r#"{"code":"x","language":"rust","depth":"3","extra":"ignored"}"#;
    assert_eq!(first_message_text(now(&router, get("review", full))), "x rust 3");
    assert_eq!(
        first_message_text(now(&router, get("review", r#"{"code":"7","depth":3}"#))),
        "7  3"
    );
    assert_eq!(
        first_message_text(now(&router, get("review", r#"{"code":"x","language":null}"#))),
        "x  0"
    );
    let wrong = now(&router, get("review", r#"{"code":"x","depth":"deep"}"#));
    assert_eq!(kind(wrong), ErrorKind::InvalidPromptArguments);
    assert_eq!(kind(now(&router, get("review", "[]"))), ErrorKind::InvalidPromptArguments);
}

#[test]
fn missing_prompt_arguments_are_a_bare_array() {
    let error = error(now(&prompts(), get("review", r#"{"language":"rust"}"#)));
    assert_eq!(error.kind, ErrorKind::PromptArgumentMissing);
    assert_eq!(*error.data.unwrap(), json!(["code"]));
}

#[test]
fn unknown_prompts_are_named() {
    let error = error(now(&prompts(), get("nope", "{}")));
    assert_eq!(
        (error.kind, &*error.message),
        (ErrorKind::PromptNotFound, "Invalid prompt name: nope")
    );
}

#[test]
fn everything_a_prompt_may_return() {
    #[derive(Serialize)]
    struct Data {
        n: u8,
    }
    let router = Router::builder()
        .add(Prompt::new("str", async || "s"))
        .add(Prompt::new("one", async || PromptMessage::assistant("s")))
        .add(Prompt::new("many", async || {
            vec![PromptMessage::user("a"), PromptMessage::user(Content::image([1], "image/png"))]
        }))
        .add(Prompt::new("result", async || PromptResult::default().description("d")))
        .add(Prompt::new("json", async || Json(Data { n: 1 })))
        .add(Prompt::inline("inline", || Ok::<_, Error>("fine")))
        .add(Prompt::new("bad", async || {
            Err::<String, _>(Error::new(ErrorKind::ToolExecutionFailed))
        }))
        .build()
        .unwrap();
    let run = |name: &str| messages(now(&router, get(name, "{}")));
    assert_eq!(run("str").messages, [PromptMessage::user("s")]);
    assert_eq!(run("one").messages[0].role, Role::Assistant);
    assert_eq!(run("many").messages.len(), 2);
    assert_eq!(run("result").description.as_deref(), Some("d"));
    assert_eq!(run("json").messages, [PromptMessage::user(r#"{"n":1}"#)]);
    assert_eq!(run("inline").messages, [PromptMessage::user("fine")]);
    assert_eq!(kind(now(&router, get("bad", "{}"))), ErrorKind::ToolExecutionFailed);
}

fn completing() -> Router {
    let languages = |typing: CompletionRequest, State(words): State<Vec<&'static str>>| {
        typing.matching(words.iter().copied())
    };
    let depths = async |typing: CompletionRequest| {
        let code = typing.context.get("code").cloned().unwrap_or_default();
        vec![format!("{}:{}:{code}", typing.argument, typing.value)]
    };
    Router::builder()
        .state(vec!["python", "Pascal", "rust"])
        .add(review().complete("language", languages).complete("depth", depths))
        .add(
            Resource::new("note://{name}", async |Args(it): Args<Note>| it.name)
                .complete_from("name", (0..250).map(|n| format!("n{n}"))),
        )
        .add(Resource::new("x:static", async || "s"))
        .build()
        .unwrap()
}

const REVIEW: &str = r#"{"type":"ref/prompt","name":"review"}"#;

#[test]
fn prompts_complete_by_name_with_plain_and_async_functions() {
    let router = completing();
    let found = completion(now(&router, complete(REVIEW, "language", "P")));
    assert_eq!(found.values, ["python", "Pascal"]);
    assert_eq!((found.total, found.has_more), (Some(2), Some(false)));
    let request = RequestBuilder::new(Method::Complete)
        .param("ref", REVIEW)
        .param("argument", r#"{"name":"depth","value":"1"}"#)
        .param("context", r#"{"arguments":{"code":"x"}}"#)
        .build();
    assert_eq!(completion(now(&router, request)).values, ["depth:1:x"]);
    assert!(completion(now(&router, complete(REVIEW, "code", "x"))).values.is_empty());
}

#[test]
fn templates_complete_by_their_text_or_by_a_uri_that_matches() {
    let router = completing();
    for uri in ["note://{name}", "note://anything"] {
        let reference = json!({"type": "ref/resource", "uri": uri}).to_string();
        let found = completion(now(&router, complete(&reference, "name", "")));
        assert_eq!((found.values.len(), found.total), (100, Some(250)));
        assert_eq!(found.has_more, Some(true));
    }
}

#[test]
fn invalid_completion_references_are_rejected() {
    let router = completing();
    let kind_of =
        |reference: &str, argument: &str| kind(now(&router, complete(reference, argument, "")));
    assert_eq!(kind_of(REVIEW, "nope"), ErrorKind::InvalidParams);
    assert_eq!(kind_of(r#"{"type":"ref/prompt","name":"nope"}"#, "x"), ErrorKind::PromptNotFound);
    for uri in ["other://{x}", "x:static", "nope"] {
        let reference = json!({"type": "ref/resource", "uri": uri}).to_string();
        assert_eq!(kind_of(&reference, "name"), ErrorKind::InvalidParams, "{uri}");
    }
    assert_eq!(kind_of(r#"{"type":"ref/other"}"#, "x"), ErrorKind::InvalidParams);
    assert_eq!(kind_of(r#"{}"#, "x"), ErrorKind::InvalidParams);
    assert_eq!(
        kind(now(&prompts(), complete(REVIEW, "code", ""))),
        ErrorKind::CapabilityNotSupported
    );
}

#[test]
fn completions_may_be_limited_to_fewer() {
    let build = |values: usize| {
        let limits = CallLimits::default().completion_values(3);
        let values: Vec<String> = (0..values).map(|n| n.to_string()).collect();
        let prompt = review().complete("code", move |_: CompletionRequest| values.clone());
        Router::builder().limits(limits).add(prompt).build().unwrap()
    };
    let at = completion(now(&build(3), complete(REVIEW, "code", "")));
    assert_eq!((at.values.len(), at.has_more), (3, Some(false)));
    let past = completion(now(&build(4), complete(REVIEW, "code", "")));
    assert_eq!((past.values.len(), past.total, past.has_more), (3, Some(4), Some(true)));
}
