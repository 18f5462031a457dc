//! Client requests of a handler with both input modes, and how they end.

use std::{
    future::pending,
    pin::pin,
    sync::{Arc, Mutex},
};

use crate::context_support::*;
use futures_util::future::{join, select};
use serde_json::json;
use wharf_model::{
    ClientCapability, CompletionRequest, Content, ElicitResult, ErrorKind, Event, InputMode,
    Method, Outcome, Reply, RequestBuilder, Role, RootsResult, SamplingMessage, SamplingRequest,
    SamplingResult,
};
use wharf_server::{
    Args, ClientRequestError, Ctx, HandlerTest, Prompt, Resource, Router, State, Tool,
};

const BOTH: [InputMode; 2] = [InputMode::Deliver, InputMode::Suspend];

/// Effects before the client request, one in a step and one outside, and one effect after it.
#[derive(Clone, Default)]
struct Effects {
    outside: Counter,
    before: Counter,
    after: Counter,
}

async fn deploy(State(effects): State<Effects>, ctx: Ctx) -> Result<String, ClientRequestError> {
    effects.outside.hit();
    let build = ctx.step("build", async { effects.before.hit() }).await;
    ctx.progress(1.0).await;
    let confirm: Confirm = ctx.ask("confirm", format!("Deploy build {build}?")).await?;
    let receipt = ctx.step("deploy", async { effects.after.hit() }).await;
    Ok(format!("{build}/{receipt}/{}", confirm.sure))
}

#[tokio::test]
async fn one_handler_serves_both_input_modes() {
    for asks in BOTH {
        let effects = Effects::default();
        let router = builder(Tool::new("deploy", deploy)).state(effects.clone()).build().unwrap();
        let test = HandlerTest::tool(&router, "deploy").answer("confirm", sure());
        let report = test.run(asks).await;
        assert_eq!(report.text(), "1/1/true");
        assert_eq!(report.asked(), ["confirm"]);
        assert_eq!((effects.before.count(), effects.after.count()), (1, 1), "steps run once");
        let runs = if asks == InputMode::Suspend { 2 } else { 1 };
        assert_eq!((report.rounds.len(), effects.outside.count()), (runs, runs));
        assert_eq!(report.rounds[0].notifications.len(), 1);
    }
}

#[tokio::test]
async fn prompts_and_resources_send_client_requests_too() {
    async fn ask(ctx: Ctx) -> Result<String, ClientRequestError> {
        let confirm: Confirm = ctx.ask("c", "Sure?").await?;
        Ok(confirm.sure.to_string())
    }
    let router =
        builder(Prompt::new("p", ask)).add(Resource::new("x://r", ask).name("r")).build().unwrap();
    for asks in BOTH {
        let prompt = HandlerTest::prompt(&router, "p").answer("c", sure()).run(asks).await;
        let Outcome::Complete(Reply::Prompt(prompt)) = prompt.outcome else { panic!() };
        assert_eq!(prompt.messages[0].content, Content::text("true"));
        let read = HandlerTest::resource(&router, "x://r").answer("c", sure()).run(asks).await;
        assert!(matches!(read.outcome, Outcome::Complete(Reply::Read(_))), "{:?}", read.outcome);
    }
}

#[tokio::test]
async fn every_client_request_gets_its_response() {
    async fn all(ctx: Ctx) -> Result<String, ClientRequestError> {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let form = ctx.ask_form("form", "How many?", schema).await?;
        ctx.ask_url("url", "Log in", "https://example.com/").await?;
        let conversation = SamplingRequest::new(9).message(SamplingMessage::user("hello"));
        let said = ctx.sample("sample", conversation).await?;
        let roots = ctx.roots("roots").await?;
        Ok(format!("{} {} {:?} {}", form["n"], said.text(), said.role, roots[0].uri))
    }
    let router = router(tool(all));
    for asks in BOTH {
        let report = HandlerTest::tool(&router, "tool")
            .answer("form", ElicitResult::accept(json!({"n": 3.0, "unknown": 1})))
            .answer("url", ElicitResult::accept_url())
            .answer("sample", SamplingResult::new("m", "hi"))
            .answer("roots", RootsResult::new([wharf_model::Root::new("file:///r")]))
            .run(asks)
            .await;
        assert_eq!(report.text(), format!("3 hi {:?} file:///r", Role::Assistant));
        assert_eq!(report.asked(), ["form", "url", "sample", "roots"]);
    }
}

#[tokio::test]
async fn a_decline_and_a_cancel_are_different_answers() {
    async fn ask(ctx: Ctx) -> String {
        format!("{:?}", ctx.ask::<Confirm>("c", "Sure?").await.map(|confirm| confirm.sure))
    }
    let router = router(tool(ask));
    for asks in BOTH {
        for (answer, expected) in [
            (ElicitResult::decline(), "Err(Declined)"),
            (ElicitResult::cancel(), "Err(Cancelled)"),
            (sure(), "Ok(true)"),
        ] {
            let report = HandlerTest::tool(&router, "tool").answer("c", answer).run(asks).await;
            assert_eq!(report.text(), expected);
        }
    }
}

#[test]
fn an_error_response_is_a_refusal() {
    let router = router(tool(async |ctx: Ctx| format!("{:?}", ctx.roots("r").await)));
    let mut request = suspending(call("tool"));
    request.asks = InputMode::Deliver;
    let mut active_call = start(&router, request, &FakeTimer::default());
    let Some(Event::ClientRequest(id, _)) = events(&mut active_call).pop() else { panic!() };
    let refusal = wharf_model::Error::custom(7, "not you");
    assert!(active_call.response_sender().deliver(id, Err(refusal)));
    let Some(Event::Done(outcome)) = events(&mut active_call).pop() else { panic!() };
    assert!(text(outcome).starts_with("Err(Refused("));
}

#[test]
fn an_error_response_of_the_client_is_not_an_error_of_the_server() {
    async fn roots(ctx: Ctx) -> Result<String, wharf_model::Error> {
        Ok(format!("{:?}", ctx.roots("r").await?))
    }
    let router = Router::builder().add(Prompt::new("p", roots)).build().unwrap();
    let prompt = RequestBuilder::new(Method::GetPrompt).target("p");
    let mut request = suspending(prompt);
    request.asks = InputMode::Deliver;
    let mut active_call = start(&router, request, &FakeTimer::default());
    let Some(Event::ClientRequest(id, _)) = events(&mut active_call).pop() else { panic!() };
    let lie = wharf_model::Error::new(ErrorKind::TaskNotFound).with_message("x".repeat(9999));
    assert!(
        active_call.response_sender().deliver(id, Err(lie.with_data(json!({"their": "data"}))))
    );
    let Some(Event::Done(Outcome::Failed(error))) = events(&mut active_call).pop() else {
        panic!()
    };
    assert_eq!(error.kind, ErrorKind::RefusedDependencyFailed);
    assert!(error.message.contains("the client returned an error") && error.message.len() < 1000);
    assert_eq!(error.data, None);
}

#[test]
fn concurrent_client_requests_are_sent_together() {
    async fn two(ctx: Ctx) -> Result<String, ClientRequestError> {
        let (a, b) = join(ctx.ask::<Confirm>("a", "A?"), ctx.ask::<Confirm>("b", "B?")).await;
        Ok(format!("{} {}", a?.sure, b?.sure))
    }
    let (router, timer) = (router(tool(two)), FakeTimer::default());
    let suspended = required(end(&router, suspending(call("tool")), &timer));
    let keys: Vec<_> = suspended.requests.iter().map(|(key, _)| &**key).collect();
    assert_eq!(keys, ["a", "b"]);

    let mut request = suspending(call("tool"));
    request.asks = InputMode::Deliver;
    let mut active_call = start(&router, request, &timer);
    let asked = events(&mut active_call);
    assert!(matches!(asked[..], [Event::ClientRequest(..), Event::ClientRequest(..)]), "{asked:?}");
}

#[test]
fn unanswered_client_requests_are_sent_again() {
    async fn two(ctx: Ctx) -> Result<String, ClientRequestError> {
        let (a, b) = join(ctx.ask::<Confirm>("a", "A?"), ctx.ask::<Confirm>("b", "B?")).await;
        Ok(format!("{} {}", a?.sure, b?.sure))
    }
    let (router, timer) = (router(tool(two)), FakeTimer::default());
    let first = required(end(&router, suspending(call("tool")), &timer)).state.unwrap();
    let only_b = answers(json!({"b": sure(), "unknown": {"any": "thing"}}));
    let retry = call("tool").request_state(&first).input_responses(&only_b);
    let second = required(end(&router, suspending(retry), &timer));
    assert_eq!(second.requests.len(), 1);
    assert_eq!(second.requests[0].0, "a");
    // The response to `b` is in the state now.
    let retry = call("tool")
        .request_state(&second.state.unwrap())
        .input_responses(&answers(json!({"a": {"action": "accept", "content": {"sure": false}}})));
    assert_eq!(text(end(&router, suspending(retry), &timer)), "false true");
}

#[test]
fn an_invalid_response_is_requested_again() {
    let ask = async |ctx: Ctx| ctx.ask::<Confirm>("c", "Sure?").await.map(|c| c.sure.to_string());
    let (router, timer) = (router(tool(ask)), FakeTimer::default());
    for nonsense in [
        json!({"c": 1}),
        json!({"c": {"action": "shrug"}}),
        json!({"c": {"action": "accept"}}),
        json!({"c": {"action": "accept", "content": {"sure": "yes"}}}),
        json!({}),
    ] {
        let first = required(end(&router, suspending(call("tool")), &timer)).state.unwrap();
        let retry = call("tool").request_state(&first).input_responses(&nonsense.to_string());
        let again = required(end(&router, suspending(retry), &timer));
        assert_eq!(again.requests.len(), 1, "{nonsense}");
        let retry = call("tool").input_responses(&nonsense.to_string());
        assert_eq!(required(end(&router, suspending(retry), &timer)).requests.len(), 1);
    }
    let retry = suspending(call("tool").input_responses("[]"));
    let Outcome::Failed(error) = end(&router, retry, &timer) else { panic!() };
    assert_eq!(error.kind, ErrorKind::InvalidParams);
}

#[test]
fn without_state_responses_are_matched_by_key() {
    let ask = async |ctx: Ctx| ctx.ask::<Confirm>("c", "Sure?").await.map(|c| c.sure.to_string());
    let (router, timer) = (router(tool(ask)), FakeTimer::default());
    let eager = call("tool").input_responses(&answers(json!({"c": sure()})));
    assert_eq!(text(end(&router, suspending(eager), &timer)), "true");
}

#[test]
fn a_response_counts_only_for_its_request() {
    async fn pay(State(price): State<Counter>, ctx: Ctx) -> Result<String, ClientRequestError> {
        let price = price.count();
        let confirm: Confirm = ctx.ask("pay", format!("Pay {price}?")).await?;
        Ok(format!("paid {price}: {}", confirm.sure))
    }
    let (price, timer) = (Counter::default(), FakeTimer::default());
    let router = builder(tool(pay)).state(price.clone()).build().unwrap();
    let first = required(end(&router, suspending(call("tool")), &timer)).state.unwrap();
    price.hit();
    let retry =
        || call("tool").request_state(&first).input_responses(&answers(json!({"pay": sure()})));
    let again = required(end(&router, suspending(retry()), &timer));
    assert!(format!("{:?}", again.requests).contains("Pay 1?"));
}

#[tokio::test]
async fn a_key_is_used_for_one_client_request() {
    async fn same(ctx: Ctx) -> Result<String, ClientRequestError> {
        let first: Confirm = ctx.ask("c", "Sure?").await?;
        let second: Confirm = ctx.ask("c", "Sure?").await?;
        Ok(format!("{} {}", first.sure, second.sure))
    }
    async fn side_by_side(ctx: Ctx) -> Result<String, ClientRequestError> {
        let (a, b) = join(ctx.ask::<Confirm>("c", "Sure?"), ctx.ask::<Confirm>("c", "Sure?")).await;
        Ok(format!("{} {}", a?.sure, b?.sure))
    }
    async fn different(ctx: Ctx) -> Result<String, ClientRequestError> {
        let _: Confirm = ctx.ask("c", "Sure?").await?;
        let _: Confirm = ctx.ask("c", "Really?").await?;
        Ok("never".into())
    }
    for asks in BOTH {
        for router in [router(tool(same)), router(tool(side_by_side))] {
            let report = HandlerTest::tool(&router, "tool").answer("c", sure()).run(asks).await;
            assert_eq!((&*report.text(), report.asked().len()), ("true true", 1));
        }
        let router = router(tool(different));
        let report = HandlerTest::tool(&router, "tool").answer("c", sure()).run(asks).await;
        assert_eq!(report.text(), "`c` is used for two different client requests in one call");
    }
}

#[test]
fn a_race_against_a_client_request_suspends() {
    async fn race(ctx: Ctx) -> &'static str {
        select(pin!(ctx.roots("r")), pin!(pending::<()>())).await;
        "raced"
    }
    let (router, timer) = (router(tool(race)), FakeTimer::default());
    assert_eq!(required(end(&router, suspending(call("tool")), &timer)).requests.len(), 1);
}

#[tokio::test]
async fn a_client_request_that_lost_its_race_is_withdrawn() {
    async fn race(ctx: Ctx) -> &'static str {
        select(pin!(ctx.roots("r")), pin!(async {})).await;
        // Waits for something else when no client request is pending any more.
        tokio::task::yield_now().await;
        "raced"
    }
    let router = router(tool(race));
    let report = HandlerTest::tool(&router, "tool").run(InputMode::Suspend).await;
    assert_eq!((&*report.text(), report.rounds.len()), ("raced", 1));
}

#[tokio::test]
async fn a_client_request_from_a_spawned_task_ends_with_suspended() {
    type Seen = Arc<Mutex<Option<tokio::task::JoinHandle<Result<Confirm, ClientRequestError>>>>>;
    let seen = Seen::default();
    async fn spawn(State(seen): State<Seen>, ctx: Ctx) -> &'static str {
        let asking = ctx.clone();
        let task = tokio::spawn(async move { asking.ask::<Confirm>("c", "Sure?").await });
        *seen.lock().unwrap() = Some(task);
        pending::<()>().await;
        "never"
    }
    let router = builder(tool(spawn)).state(seen.clone()).build().unwrap();
    let report = HandlerTest::tool(&router, "tool").run(InputMode::Suspend).await;
    assert_eq!(report.asked(), ["c"]);
    let task = seen.lock().unwrap().take().unwrap();
    assert!(matches!(task.await.unwrap(), Err(ClientRequestError::Suspended)));
}

#[tokio::test]
async fn a_spawned_task_that_outlives_the_call_gets_an_error() {
    let (send, receive) = tokio::sync::oneshot::channel::<Ctx>();
    let send = Arc::new(Mutex::new(Some(send)));
    type Sender = Arc<Mutex<Option<tokio::sync::oneshot::Sender<Ctx>>>>;
    async fn leak(State(send): State<Sender>, ctx: Ctx) -> &'static str {
        let _ = send.lock().unwrap().take().unwrap().send(ctx);
        "done"
    }
    let router = builder(tool(leak)).state(send).build().unwrap();
    assert_eq!(HandlerTest::tool(&router, "tool").run(InputMode::Suspend).await.text(), "done");
    let ctx = receive.await.unwrap();
    assert!(ctx.is_cancelled());
    ctx.cancelled().await;
    assert_eq!(ctx.roots("r").await.unwrap_err(), ClientRequestError::Suspended);
}

#[tokio::test]
async fn client_requests_need_the_declared_capability() {
    async fn ask(ctx: Ctx) -> Result<String, ClientRequestError> {
        assert!(!ctx.can(ClientCapability::Elicitation));
        ctx.ask::<Confirm>("c", "Sure?").await.map(|_| String::new())
    }
    let router = router(tool(ask));
    for asks in BOTH {
        let test = HandlerTest::tool(&router, "tool").capabilities(Default::default());
        let report = test.run(asks).await;
        let Outcome::Failed(error) = &report.outcome else { panic!("{report:?}") };
        assert_eq!(error.kind, ErrorKind::MissingClientCapability);
        assert!(report.asked().is_empty());
    }
}

#[test]
fn completions_cannot_send_client_requests() {
    async fn complete(_typing: CompletionRequest, ctx: Ctx) -> Vec<String> {
        vec![format!("{:?}", ctx.roots("r").await)]
    }
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Topic {
        topic: String,
    }
    let prompt = Prompt::new("p", async |Args(Topic { topic }): Args<Topic>| topic);
    let router = router(prompt.complete("topic", complete));
    let request = RequestBuilder::new(Method::Complete)
        .param("ref", r#"{"type":"ref/prompt","name":"p"}"#)
        .param("argument", r#"{"name":"topic","value":""}"#);
    let outcome = end(&router, suspending(request), &FakeTimer::default());
    let Outcome::Complete(Reply::Completion(completion)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(completion.values, ["Err(NotHere)"]);
}

#[test]
fn an_unsupported_form_type_names_the_field() {
    #[derive(serde::Deserialize, schemars::JsonSchema, Debug)]
    #[allow(dead_code)]
    struct Deep {
        inner: Confirm,
    }
    let router = router(tool(async |ctx: Ctx| ctx.ask::<Deep>("d", "?").await.map(|_| "never")));
    let outcome = end(&router, suspending(call("tool")), &FakeTimer::default());
    assert!(text(outcome).starts_with("`inner`: a form is flat"));
}

#[test]
fn a_handler_on_its_own_thread_can_send_client_requests() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let blocking = |ctx: Ctx| match futures_util_block_on(ctx.roots("r")) {
        Ok(roots) => roots.len().to_string(),
        Err(error) => error.to_string(),
    };
    let router: Router = router(Tool::blocking("tool", blocking));
    for asks in BOTH {
        let test = HandlerTest::tool(&router, "tool").answer("r", RootsResult::new([]));
        assert_eq!(runtime.block_on(test.run(asks)).text(), "0");
    }
}

fn futures_util_block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Handle::current().block_on(future)
}
