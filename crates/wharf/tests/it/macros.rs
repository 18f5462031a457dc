//! Primitives that the attributes generate from functions, as the callers of a router see them.

// Helper functions here are test code too, so they may use `unwrap`.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wharf::prelude::*;
use wharf::server::{Router, RouterBuilder};
use wharf_model::{
    ActiveCall, BoxFuture, Deadlines, Event, Method, Outcome, Reply, Request, RequestBuilder, Timer,
};

#[derive(Clone)]
struct Bonus(i64);

/// Adds numbers,
/// and a bonus.
///
/// - fast
/// - exact
#[tool(
    title = "Sum",
    read_only,
    idempotent,
    closed_world,
    icon = "https://example.com/i.png",
    timeout = "30s"
)]
async fn add(
    /// The first
    /// number.
    #[range(1..=10)]
    a: i64,
    State(bonus): State<Bonus>,
    /// The second number.
    #[default(7)]
    b: i64,
    c: Option<i64>,
    #[header("Region")] region: Option<String>,
) -> String {
    format!("{} {}", a + b + c.unwrap_or(0) + bonus.0, region.unwrap_or_default())
}

#[tool(name = "look-up", destructive, open_world, description = "Looks up.")]
fn search(r#type: String, #[default("en")] lang: String, #[default] tags: Vec<String>) -> String {
    format!("{} {lang} {}", r#type, tags.len())
}

/// Where it runs.
#[tool(cheap)]
fn inline() -> bool {
    thread::current().name() == Some("caller")
}

#[tool]
fn blocking() -> bool {
    thread::current().name() == Some("caller")
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Point {
    /// To the right.
    x: f64,
    #[serde(default)]
    y: f64,
}

#[tool]
async fn norm(Args(point): Args<Point>) -> f64 {
    point.x.hypot(point.y)
}

#[tool(cheap)]
fn nested(point: Point, #[serde(rename = "maxDistance")] max: f64) -> bool {
    point.x.hypot(point.y) < max
}

/// The manual.
#[resource(
    "demo://manual",
    name = "manual",
    title = "Manual",
    mime = "text/markdown",
    size = 8,
    audience = "user",
    priority = 0.5
)]
async fn manual() -> &'static str {
    "# Manual"
}

/// A page of a book.
#[resource("demo://books/{book}{/chapter*}{?page}")]
fn page(
    #[complete("moby", "money", "emma")] book: String,
    chapter: Vec<String>,
    page: Option<u32>,
    Uri(uri): Uri,
) -> String {
    format!("{book} {} {page:?} {uri}", chapter.join("+"))
}

/// Asks for a review.
#[prompt(title = "Review")]
async fn review(
    /// The code
    /// to read.
    code: String,
    #[complete(languages)] r#type: Option<String>,
    #[default(3)] depth: u8,
) -> String {
    format!("{code} {} {depth}", r#type.unwrap_or_default())
}

async fn languages(typing: CompletionRequest) -> Completion {
    typing.matching(["python", "perl", "rust"])
}

fn router() -> RouterBuilder {
    Router::builder().state(Bonus(100))
}

/// Erases everything.
#[tool(scope = "files:delete", scope = ["audit", "files:read"])]
async fn erase() -> &'static str {
    "erased"
}

#[prompt(scope = "plans")]
async fn plan() -> &'static str {
    "a plan"
}

#[resource("demo://plan", scope = "plans")]
async fn planned() -> &'static str {
    "planned"
}

#[test]
fn scopes_are_declared_on_the_function() {
    let router = router().tool::<erase>().prompt::<plan>().resource::<planned>().build().unwrap();
    let mut caller = Principal::new("alice");
    for scope in ["files:delete", "audit", "files:read"] {
        let told = call_as(&router, "erase", &caller).unwrap_err();
        assert!(told.contains("files:delete audit files:read"), "{told}");
        caller = caller.with_scope(scope);
    }
    assert!(call_as(&router, "erase", &caller).is_ok());
    for method in [Method::ListTools, Method::ListPrompts, Method::ListResources] {
        assert!(list(&router, method).is_empty());
    }
}

fn call_as(router: &Router, tool: &str, caller: &Principal) -> Result<Reply, String> {
    let mut request = RequestBuilder::new(Method::CallTool).target(tool).build();
    request.scope.insert(caller.clone());
    run(router, request)
}

#[test]
fn a_tool_schema_follows_its_signature() {
    let listed = list(&router().tool::<add>().tool::<search>().build().unwrap(), Method::ListTools);
    let add = &listed[0];
    assert_eq!(add["name"], "add");
    assert_eq!(add["title"], "Sum");
    assert_eq!(add["description"], "Adds numbers, and a bonus.\n\n- fast\n- exact");
    assert_eq!(add["icons"], json!([{"src": "https://example.com/i.png"}]));
    assert_eq!(
        add["annotations"],
        json!({"readOnlyHint": true, "idempotentHint": true, "openWorldHint": false})
    );
    let schema = &add["inputSchema"];
    assert_eq!(schema["type"], "object");
    assert_eq!(schema["required"], json!(["a"]));
    let properties = &schema["properties"];
    assert_eq!(names(properties), ["a", "b", "c", "region"]);
    assert_eq!(properties["a"]["description"], "The first number.");
    assert_eq!(properties["a"]["minimum"], 1);
    assert_eq!(properties["a"]["maximum"], 10);
    assert_eq!(properties["b"]["description"], "The second number.");
    assert_eq!(properties["b"]["default"], 7);
    assert_eq!(properties["region"]["x-mcp-header"], "Region");
}

#[test]
fn macro_options_override_the_function() {
    let listed = list(&router().tool::<search>().build().unwrap(), Method::ListTools);
    let search = &listed[0];
    assert_eq!(search["name"], "look-up");
    assert_eq!(search["description"], "Looks up.");
    assert_eq!(search["annotations"], json!({"destructiveHint": true, "openWorldHint": true}));
    assert_eq!(search["inputSchema"]["required"], json!(["type"]));
    assert_eq!(names(&search["inputSchema"]["properties"]), ["type", "lang", "tags"]);
}

#[test]
fn calls_reach_the_function() {
    let router = router().tool::<add>().tool::<search>().tool::<norm>().tool::<nested>();
    let router = router.build().unwrap();
    for (tool, arguments, expected) in [
        ("add", json!({"a": 1}), "108 "),
        ("add", json!({"a": 1.0, "b": 2, "c": 3, "region": "eu"}), "106 eu"),
        ("add", json!({"a": 10, "c": null}), "117 "),
        ("look-up", json!({"type": "ship"}), "ship en 0"),
        ("look-up", json!({"type": "ship", "lang": "fr", "tags": ["a", "b"]}), "ship fr 2"),
        ("norm", json!({"x": 3, "y": 4}), "5"),
        ("norm", json!({"x": 3}), "3"),
        ("nested", json!({"point": {"x": 3}, "maxDistance": 4}), "true"),
    ] {
        assert_eq!(call(&router, tool, &arguments), Ok(expected.to_owned()), "{tool} {arguments}");
    }
}

#[test]
fn arguments_that_do_not_fit_are_refused_by_name() {
    let router = router().tool::<add>().tool::<nested>().build().unwrap();
    for (tool, arguments, word) in [
        ("add", json!({}), "a"),
        ("add", json!({"a": "one"}), "integer"),
        ("add", json!({"a": 0}), "1"),
        ("add", json!({"a": 11}), "10"),
        ("nested", json!({"point": {"x": 3}, "max": 4}), "maxDistance"),
    ] {
        let refused = call(&router, tool, &arguments).expect_err(&arguments.to_string());
        assert!(refused.contains(word), "{arguments}: {refused}");
    }
}

#[test]
fn a_plain_function_runs_on_another_thread_unless_it_is_cheap() {
    let router = router().tool::<inline>().tool::<blocking>().build().unwrap();
    let caller = thread::Builder::new().name("caller".into());
    let job = move || {
        assert_eq!(call(&router, "inline", &json!({})), Ok("true".to_owned()));
        assert_eq!(call(&router, "blocking", &json!({})), Ok("false".to_owned()));
    };
    caller.spawn(job).unwrap().join().unwrap();
}

#[test]
fn a_resource_is_listed_and_read() {
    let router = router().resource::<manual>().resource::<page>().build().unwrap();
    let expected = json!({
        "uri": "demo://manual", "name": "manual", "title": "Manual", "description": "The manual.",
        "mimeType": "text/markdown", "size": 8,
        "annotations": {"audience": ["user"], "priority": 0.5},
    });
    assert_eq!(list(&router, Method::ListResources), [expected]);
    let template = &list(&router, Method::ListTemplates)[0];
    assert_eq!(template["uriTemplate"], "demo://books/{book}{/chapter*}{?page}");
    assert_eq!(template["name"], "page");
    assert_eq!(template["description"], "A page of a book.");

    let expected =
        json!([{"uri": "demo://manual", "mimeType": "text/markdown", "text": "# Manual"}]);
    assert_eq!(read(&router, "demo://manual"), expected);
    for (uri, text) in [
        ("demo://books/moby%20dick/one/two?page=3", "moby dick one+two Some(3)"),
        ("demo://books/emma", "emma  None"),
    ] {
        assert_eq!(read(&router, uri)[0]["text"], format!("{text} {uri}"));
    }
}

#[test]
fn a_prompt_is_listed_and_got() {
    let router = router().prompt::<review>().build().unwrap();
    let expected = json!({
        "name": "review", "title": "Review", "description": "Asks for a review.",
        "arguments": [
            {"name": "code", "description": "The code to read.", "required": true},
            {"name": "type"},
            {"name": "depth"},
        ],
    });
    assert_eq!(list(&router, Method::ListPrompts), [expected]);
    let request = |arguments: Value| {
        let arguments = arguments.to_string();
        RequestBuilder::new(Method::GetPrompt).target("review").arguments(&arguments).build()
    };
    for (arguments, text) in [
        (json!({"code": "x"}), "x  3"),
        (json!({"code": "x", "type": "rust", "depth": "5"}), "x rust 5"),
    ] {
        let Ok(Reply::Prompt(got)) = run(&router, request(arguments)) else { panic!("no prompt") };
        let messages = serde_json::to_value(&got.messages).unwrap();
        assert_eq!(messages, json!([{"role": "user", "content": {"type": "text", "text": text}}]));
    }
}

#[test]
fn arguments_are_completed_where_they_are_declared() {
    let router = router().resource::<page>().prompt::<review>().build().unwrap();
    let template = json!({"type": "ref/resource", "uri": "demo://books/{book}{/chapter*}{?page}"});
    assert_eq!(complete(&router, &template, "book", "mo"), ["moby", "money"]);
    let prompt = json!({"type": "ref/prompt", "name": "review"});
    assert_eq!(complete(&router, &prompt, "type", "p"), ["python", "perl"]);
}

#[test]
fn a_function_with_a_macro_stays_callable() {
    assert_eq!(search("ship".into(), "de".into(), vec![]), "ship de 0");
    let sum = block_on(add(1, State(Bonus(0)), 2, None, Some("eu".into())));
    assert_eq!(sum, "3 eu");
    assert!(nested(Point { x: 1.0, y: 0.0 }, 2.0));
}

#[test]
fn a_missing_state_is_a_build_error_that_names_the_tool() {
    let error = Router::builder().tool::<add>().build().err().map(|error| error.to_string());
    let text = error.unwrap_or_default();
    assert!(text.contains("add") && text.contains("Bonus"), "{text}");
}

fn names(object: &Value) -> Vec<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

fn list(router: &Router, method: Method) -> Vec<Value> {
    fn items<T: serde::Serialize>(items: &[Arc<T>]) -> Vec<Value> {
        items.iter().map(|item| serde_json::to_value(&**item).unwrap()).collect()
    }
    match run(router, RequestBuilder::new(method).build()) {
        Ok(Reply::Tools(page)) => items(page.items()),
        Ok(Reply::Resources(page)) => items(page.items()),
        Ok(Reply::Templates(page)) => items(page.items()),
        Ok(Reply::Prompts(page)) => items(page.items()),
        other => panic!("{other:?}"),
    }
}

/// Text of the result, or of the rejection.
fn call(router: &Router, tool: &str, arguments: &Value) -> Result<String, String> {
    let request =
        RequestBuilder::new(Method::CallTool).target(tool).arguments(&arguments.to_string());
    let Reply::Tool(result) = run(router, request.build())? else { panic!("not a tool") };
    let text =
        serde_json::to_value(&result.content).unwrap()[0]["text"].as_str().map(str::to_owned);
    let text = text.unwrap_or_default();
    if result.is_error { Err(text) } else { Ok(text) }
}

fn read(router: &Router, uri: &str) -> Value {
    match run(router, RequestBuilder::new(Method::ReadResource).target(uri).build()) {
        Ok(Reply::Read(result)) => serde_json::to_value(&result.contents).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn complete(router: &Router, reference: &Value, argument: &str, value: &str) -> Vec<String> {
    let request = RequestBuilder::new(Method::Complete)
        .param("ref", &reference.to_string())
        .param("argument", &json!({"name": argument, "value": value}).to_string());
    match run(router, request.build()) {
        Ok(Reply::Completion(completion)) => completion.values,
        other => panic!("{other:?}"),
    }
}

fn run(router: &Router, request: Request) -> Result<Reply, String> {
    let mut exchange = ActiveCall::start(router, request, Arc::new(Clock), Deadlines::default());
    let done = poll_fn(move |cx| {
        loop {
            match exchange.poll_event(cx) {
                Poll::Ready(Event::Done(outcome)) => return Poll::Ready(outcome),
                Poll::Ready(_) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    });
    match block_on(done) {
        Outcome::Complete(reply) => Ok(reply),
        Outcome::Failed(error) => Err(error.to_string()),
        other => panic!("{other:?}"),
    }
}

/// Clock whose timers never fire.
struct Clock;

impl Timer for Clock {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep_until(&self, _deadline: Instant) -> BoxFuture<()> {
        Box::pin(std::future::pending())
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park_timeout(Duration::from_secs(10)),
        }
    }
}

/// A default that is out of its own range.
#[tool]
fn rate(
    #[range(1..=5)]
    #[default(9)]
    stars: u8,
) -> u8 {
    stars
}

/// A prompt argument cannot be a list of lists.
#[prompt]
fn grid(rows: Vec<Vec<u8>>) -> String {
    format!("{rows:?}")
}

#[test]
fn unusable_declarations_fail_the_build() {
    let error =
        wharf::server::Router::builder().tool::<rate>().prompt::<grid>().build().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("tool `rate`: the default of `stars`"), "{text}");
    assert!(text.contains("prompt `grid`: ") && text.contains("`rows`"), "{text}");
}

#[tool(task)]
async fn sometimes_a_task() {}

#[tool(task = "required", after = "detach")]
async fn always_a_task() {}

#[tool(after = "30s", task = "optional")]
async fn later_a_task() {}

#[tool(task = "forbidden")]
async fn never_a_task() {}

#[test]
fn the_task_option_sets_the_task_mode() {
    use wharf::{
        server::ToolFn,
        tasks::{TaskMode, TaskSupport},
    };
    let support = |tool: Tool| tool.info().execution.clone().and_then(|it| it.task_support);
    assert_eq!(support(sometimes_a_task::tool()), Some(TaskSupport::Optional));
    assert_eq!(support(always_a_task::tool()), Some(TaskSupport::Required));
    assert_eq!(support(later_a_task::tool()), Some(TaskSupport::Optional));
    assert_eq!(support(never_a_task::tool()), Some(TaskSupport::Forbidden));
    assert_eq!(support(inline::tool()), None);
    assert_ne!(TaskMode::optional(), TaskMode::optional().after(Duration::from_secs(30)));
}
