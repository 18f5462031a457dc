//! Steps, which run their effect once, and the `requestState` that records them.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use crate::context_support::*;
use futures_util::future::{join, join3};
use serde_json::json;
use wharf_model::{
    BoxFuture, Error, ErrorKind, Event, InputMode, NonceStore, Outcome, Principal, Request,
    StateCipher,
};
use wharf_server::{
    Args, CallLimits, ClientRequestError, Ctx, Extract, Handler, HandlerTest, IntoToolOutcome,
    KeyRing, MemoryNonces, Router, State, StepError, Tool, ToolError,
};

const BOTH: [InputMode; 2] = [InputMode::Deliver, InputMode::Suspend];

fn counted<A, F>(handler: F) -> (Router, Counter)
where
    F: Handler<A>,
    F::Output: IntoToolOutcome,
    A: Extract + Send + 'static,
{
    let counter = Counter::default();
    (builder(tool(handler)).state(counter.clone()).build().unwrap(), counter)
}

#[tokio::test]
async fn steps_with_the_same_name_are_numbered() {
    async fn handler(
        State(effects): State<Counter>,
        ctx: Ctx,
    ) -> Result<String, ClientRequestError> {
        let mut results = vec![];
        for _ in 0..3 {
            results.push(ctx.step("buy", async { effects.hit() }).await);
        }
        let odd = ctx.step("buy#2", async { effects.hit() }).await;
        ctx.ask::<Confirm>("c", "Sure?").await?;
        results.push(ctx.step("buy", async { effects.hit() }).await);
        Ok(format!("{results:?} {odd}"))
    }
    for asks in BOTH {
        let (router, effects) = counted(handler);
        let report = HandlerTest::tool(&router, "tool").answer("c", sure()).run(asks).await;
        assert_eq!(report.text(), "[1, 2, 3, 5] 4");
        assert_eq!(effects.count(), 5);
    }
}

/// Pending at the first poll, ready at the second.
async fn a_moment() {
    let mut polled = false;
    poll_fn(move |cx: &mut Context<'_>| {
        if std::mem::replace(&mut polled, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[test]
fn a_step_in_progress_delays_the_suspension() {
    async fn handler(
        State(effects): State<Counter>,
        ctx: Ctx,
    ) -> Result<String, ClientRequestError> {
        let slow = ctx.step("slow", async {
            a_moment().await;
            effects.hit()
        });
        let (confirm, result) = join(ctx.ask::<Confirm>("c", "Sure?"), slow).await;
        confirm.map(|_| result.to_string())
    }
    let ((router, effects), timer) = (counted(handler), FakeTimer::default());
    let mut active_call = start(&router, suspending(call("tool")), &timer);
    assert!(events(&mut active_call).is_empty(), "the step is still in progress");
    let Some(Event::Done(outcome)) = events(&mut active_call).pop() else { panic!() };
    let state = required(outcome).state.unwrap();
    assert_eq!(effects.count(), 1);
    let retry =
        call("tool").request_state(&state).input_responses(&json!({"c": sure()}).to_string());
    assert_eq!(text(end(&router, suspending(retry), &timer)), "1");
    assert_eq!(effects.count(), 1, "the step is stored");
}

#[test]
fn an_effect_without_a_step_is_repeated() {
    async fn handler(
        State(effects): State<Counter>,
        ctx: Ctx,
    ) -> Result<String, ClientRequestError> {
        let effect = async { effects.hit() };
        let (confirm, result) = join(ctx.ask::<Confirm>("c", "Sure?"), effect).await;
        confirm.map(|_| result.to_string())
    }
    let ((router, effects), timer) = (counted(handler), FakeTimer::default());
    let state = required(end(&router, suspending(call("tool")), &timer)).state.unwrap();
    let retry =
        call("tool").request_state(&state).input_responses(&json!({"c": sure()}).to_string());
    assert_eq!(text(end(&router, suspending(retry), &timer)), "2");
    assert_eq!(effects.count(), 2);
}

#[tokio::test]
async fn a_client_request_inside_a_step_is_rejected() {
    async fn handler(ctx: Ctx) -> Result<String, ClientRequestError> {
        let inside = ctx.step("s", async { ctx.roots("r").await.unwrap_err().to_string() });
        let (inside, confirm, _) =
            join3(inside, ctx.ask::<Confirm>("c", "Sure?"), ctx.step("t", a_moment())).await;
        confirm.map(|_| inside)
    }
    let router = router(tool(handler));
    for asks in BOTH {
        let report = HandlerTest::tool(&router, "tool").answer("c", sure()).run(asks).await;
        assert_eq!(report.text(), "`r` was asked inside a step: ask before it");
        assert_eq!(report.asked(), ["c"]);
    }
}

#[tokio::test]
async fn only_the_success_of_a_try_step_is_stored() {
    async fn handler(State(effects): State<Counter>, ctx: Ctx) -> Result<String, ToolError> {
        // `std::io::Error` has no JSON representation.
        let flaky = |name: &'static str| {
            let (ctx, effects) = (ctx.clone(), effects.clone());
            async move {
                let effect = async {
                    match effects.hit() {
                        1 => Err(std::io::Error::other("not yet")),
                        n => Ok(n),
                    }
                };
                ctx.try_step(name, effect).await
            }
        };
        let first = flaky("flaky").await.is_ok();
        let second = flaky("sound").await?;
        ctx.ask::<Confirm>("c", "Sure?").await?;
        Ok(format!("{first} {second}"))
    }
    let (router, effects) = counted(handler);
    let report =
        HandlerTest::tool(&router, "tool").answer("c", sure()).run(InputMode::Suspend).await;
    assert_eq!(report.text(), "true 2");
    assert_eq!(effects.count(), 3, "failed, succeeded, and the failed one again");
}

/// Debug builds report a result that a retry could not restore, also where nothing is recorded.
#[cfg(debug_assertions)]
#[tokio::test]
async fn a_step_whose_result_is_not_json_is_reported() {
    async fn not_serializable(ctx: Ctx) -> String {
        let seats = ctx.step("seats", async { BTreeMap::from([((1, 'A'), "Ada".to_owned())]) });
        format!("{:?}", seats.await)
    }
    async fn not_deserializable(ctx: Ctx) -> String {
        ctx.step("ratio", async { f64::NAN }).await.to_string()
    }
    for asks in BOTH {
        let (router, _) = counted(not_serializable);
        let report = HandlerTest::tool(&router, "tool").run(asks).await;
        assert_eq!(report.text(), ErrorKind::ToolPanicked.message());
        let (router, _) = counted(not_deserializable);
        let report = HandlerTest::tool(&router, "tool").run(asks).await;
        assert_eq!(report.text(), ErrorKind::ToolPanicked.message());
    }
}

async fn redeem(State(effects): State<Counter>, ctx: Ctx) -> Result<String, ToolError> {
    ctx.ask::<Confirm>("c", "Redeem?").await?;
    let voucher = ctx.step_once("redeem", async { effects.hit() }).await?;
    Ok(voucher.to_string())
}

#[test]
fn a_state_sent_twice_does_not_repeat_a_step_once() {
    let ((router, effects), timer) = (counted(redeem), FakeTimer::default());
    let first = required(end(&router, suspending(call("tool")), &timer)).state.unwrap();
    let retry = |state: &str| {
        call("tool").request_state(state).input_responses(&json!({"c": sure()}).to_string())
    };
    // A state derived from the first by another suspension belongs to the same call.
    let descendant = suspending(call("tool").request_state(&first));
    let descendant = required(end(&router, descendant, &timer)).state.unwrap();
    assert_eq!(text(end(&router, suspending(retry(&first)), &timer)), "1");
    for state in [&first, &descendant, &first] {
        let refused = end(&router, suspending(retry(state)), &timer);
        assert!(text(refused).contains("already done"));
    }
    assert_eq!(effects.count(), 1);
    // Another call redeems separately.
    let other = required(end(&router, suspending(call("tool")), &timer)).state.unwrap();
    assert_eq!(text(end(&router, suspending(retry(&other)), &timer)), "2");
}

#[test]
fn a_state_expires_despite_renewals() {
    let ((router, effects), timer) = (counted(redeem), FakeTimer::default());
    let ttl = CallLimits::default().state_ttl;
    let mut state = required(end(&router, suspending(call("tool")), &timer)).state.unwrap();
    for _ in 0..11 {
        timer.advance(ttl / 2);
        let again = suspending(call("tool").request_state(&state));
        state = required(end(&router, again, &timer)).state.unwrap();
    }
    timer.advance(ttl / 2);
    let again = end(&router, suspending(call("tool").request_state(&state)), &timer);
    assert!(text(again).contains("Invalid or expired requestState"));
    assert_eq!(effects.count(), 0);
}

#[tokio::test]
async fn a_one_time_step_before_any_client_request_is_stored() {
    async fn handler(State(effects): State<Counter>, ctx: Ctx) -> Result<String, ToolError> {
        let id = ctx.step_once("id", async { effects.hit() }).await?;
        ctx.ask::<Confirm>("c", "Sure?").await?;
        Ok(id.to_string())
    }
    for asks in BOTH {
        let (router, effects) = counted(handler);
        let report = HandlerTest::tool(&router, "tool").answer("c", sure()).run(asks).await;
        assert_eq!((&*report.text(), effects.count()), ("1", 1));
    }
}

#[tokio::test]
async fn a_store_that_fails_stops_the_step() {
    struct Broken;
    impl NonceStore for Broken {
        fn claim(&self, _nonce: &str, _ttl: Duration) -> BoxFuture<Result<bool, Error>> {
            Box::pin(async { Err(Error::new(ErrorKind::TemporarilyUnavailable)) })
        }
    }
    async fn handler(
        State(effects): State<Counter>,
        ctx: Ctx,
    ) -> Result<String, ClientRequestError> {
        ctx.ask::<Confirm>("c", "Sure?").await?;
        let once = ctx.step_once("s", async { effects.hit() }).await;
        assert!(matches!(once, Err(StepError::Store(_))));
        Ok("refused".into())
    }
    let effects = Counter::default();
    let router = builder(tool(handler)).state(effects.clone()).nonces(Broken);
    let trial = HandlerTest::tool(&router.build().unwrap(), "tool").answer("c", sure());
    assert_eq!(trial.run(InputMode::Suspend).await.text(), "refused");
    assert_eq!(effects.count(), 0);
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[allow(dead_code)]
struct Amounts {
    amount: u32,
    #[serde(default)]
    note: String,
}

/// Two equal tools, so that only the property under test distinguishes a valid state from an
/// invalid one.
fn payments(seal: &Arc<KeyRing>) -> Router {
    async fn pay(Args(amounts): Args<Amounts>, ctx: Ctx) -> Result<String, ClientRequestError> {
        ctx.ask::<Confirm>("c", "Pay?").await.map(|_| format!("paid {}", amounts.amount))
    }
    let builder = Router::builder().add(Tool::new("pay", pay)).add(Tool::new("repay", pay));
    builder.state_cipher(seal.clone()).build().unwrap()
}

fn paying(tool: &str, arguments: &str, principal: Option<&str>, state: Option<&str>) -> Request {
    let mut request =
        call(tool).arguments(arguments).input_responses(&json!({"c": sure()}).to_string());
    if let Some(state) = state {
        request = request.request_state(state);
    }
    let mut request = suspending(request);
    if let Some(principal) = principal {
        request.scope.insert(Principal::new(principal));
    }
    request
}

fn fresh_state(router: &Router, timer: &FakeTimer, principal: Option<&str>) -> String {
    let mut request = suspending(call("pay").arguments(r#"{"amount":1,"note":"n"}"#));
    if let Some(principal) = principal {
        request.scope.insert(Principal::new(principal));
    }
    required(end(router, request, timer)).state.unwrap()
}

/// Asserts the rejection that the official SDKs use, which gives no reason.
fn refused(outcome: Outcome) {
    let Outcome::Failed(error) = outcome else { panic!("accepted: {outcome:?}") };
    assert_eq!(error.kind, ErrorKind::InvalidRequestState);
    assert_eq!(error.kind.name(), "invalid_request_state");
    assert_eq!(error.message, "Invalid or expired requestState");
    assert_eq!(error.data.as_deref(), None);
}

#[test]
fn a_state_is_bound_to_its_call() {
    let seal = Arc::new(KeyRing::random());
    let (router, timer) = (payments(&seal), FakeTimer::default());
    let pay = |tool: &str, arguments: &str, principal: Option<&str>, state: &str| {
        end(&router, paying(tool, arguments, principal, Some(state)), &timer)
    };
    let arguments = r#"{"amount":1,"note":"n"}"#;
    let state = fresh_state(&router, &timer, Some("alice"));
    assert_eq!(text(pay("pay", arguments, Some("alice"), &state)), "paid 1");
    // The same arguments in another notation.
    assert_eq!(text(pay("pay", r#"{ "note":"n", "amount":1}"#, Some("alice"), &state)), "paid 1");
    refused(pay("pay", arguments, Some("mallory"), &state));
    refused(pay("pay", arguments, None, &state));
    refused(pay("repay", arguments, Some("alice"), &state));
    refused(pay("pay", r#"{"amount":1000,"note":"n"}"#, Some("alice"), &state));
    refused(pay("pay", r#"{"amount":1}"#, Some("alice"), &state));
    refused(pay("pay", arguments, Some("alice"), "nonsense"));
    refused(pay("pay", arguments, Some("alice"), ""));
    let anonymous = fresh_state(&router, &timer, None);
    refused(pay("pay", arguments, Some(""), &anonymous));

    let other_server = payments(&Arc::new(KeyRing::random()));
    refused(end(&other_server, paying("pay", arguments, None, Some(&anonymous)), &timer));
    // All processes of a cluster share the keys.
    let same_keys = payments(&seal);
    let there = end(&same_keys, paying("pay", arguments, None, Some(&anonymous)), &timer);
    assert_eq!(text(there), "paid 1");
}

#[test]
fn a_state_expires() {
    let (router, timer) = (payments(&Arc::new(KeyRing::random())), FakeTimer::default());
    let (state, arguments) = (fresh_state(&router, &timer, None), r#"{"amount":1,"note":"n"}"#);
    let pay = || end(&router, paying("pay", arguments, None, Some(&state)), &timer);
    timer.advance(CallLimits::default().state_ttl - Duration::from_secs(1));
    assert_eq!(text(pay()), "paid 1");
    timer.advance(Duration::from_secs(1));
    refused(pay());
}

#[test]
fn a_decrypted_but_invalid_state_is_rejected() {
    struct Plain;
    impl StateCipher for Plain {
        fn seal(&self, _context: &[u8], plain: &[u8]) -> String {
            String::from_utf8_lossy(plain).into_owned()
        }
        fn open(&self, _context: &[u8], sealed: &str) -> Option<Vec<u8>> {
            Some(sealed.into())
        }
    }
    let ask = async |ctx: Ctx| ctx.ask::<Confirm>("c", "Sure?").await.map(|_| "ok");
    let router = builder(tool(ask)).state_cipher(Plain).build().unwrap();
    for state in ["", "{}", "[]", r#"{"expires":9}"#] {
        let request = suspending(call("tool").request_state(state));
        refused(end(&router, request, &FakeTimer::default()));
    }
}

#[test]
fn a_state_is_bounded() {
    async fn handler(Args(amounts): Args<Amounts>, ctx: Ctx) -> Result<String, ClientRequestError> {
        let size = amounts.amount as usize;
        ctx.step("big", async { "x".repeat(size) }).await;
        ctx.ask::<Confirm>("c", "Sure?").await.map(|_| String::new())
    }
    let request =
        |size: usize| suspending(call("tool").arguments(&json!({"amount": size}).to_string()));
    let (unbounded, timer) = (router(tool(handler)), FakeTimer::default());
    let size = required(end(&unbounded, request(3000), &timer)).state.unwrap().len();
    for (state, fits) in [(size, true), (size - 1, false)] {
        let limits = CallLimits::default().state(state);
        let router = builder(tool(handler)).limits(limits).build().unwrap();
        match end(&router, request(3000), &timer) {
            Outcome::InputRequired(_) => assert!(fits),
            Outcome::Failed(error) => {
                assert!(!fits && error.message.contains(&format!("{size} bytes encrypted")));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn claims_are_made_once() {
    let nonces = MemoryNonces::default();
    assert!(nonces.claim("n", Duration::from_secs(9)).await.unwrap());
    assert!(!nonces.claim("n", Duration::from_secs(9)).await.unwrap());
}
