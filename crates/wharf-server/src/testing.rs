//! Test harness that calls one tool, prompt or resource without a client.

use std::{
    collections::BTreeMap,
    future::{poll_fn, ready},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use serde::Serialize;
use serde_json::{Value, json};
use wharf_model::{
    ActiveCall, BoxFuture, ClientCapabilities, ClientRequest, Deadlines, Error, ErrorKind, Event,
    InputMode, Lock, LogLevel, Method, Notification, Outcome, Peer, Principal, Request,
    RequestBuilder, RequestExtensions, Timer,
};

use crate::Router;

/// Maximum number of rounds: a handler that sends a new client request in each round would never
/// end.
const MAX_ROUNDS: usize = 32;

/// Calls one tool, prompt or resource with prepared responses, as either kind of client would, and
/// records every round.
///
/// A handler that sends client requests must behave the same whether they are delivered while it
/// waits ([`InputMode::Deliver`]) or answered by a retry of the call ([`InputMode::Suspend`]). Test
/// both:
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod model { pub use super::*; } pub mod server { pub use super::*; } pub mod testing { pub use super::*; } }
/// use wharf::{Ctx, Tool};
/// use wharf::model::{ElicitResult, InputMode};
/// use wharf::server::{ClientRequestError, Router};
/// use wharf::testing::HandlerTest;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Confirm { sure: bool }
///
/// async fn delete(ctx: Ctx) -> Result<String, ClientRequestError> {
///     let confirm: Confirm = ctx.ask("confirm", "Delete everything?").await?;
///     Ok(format!("deleted: {}", confirm.sure))
/// }
///
/// # futures_util::future::FutureExt::now_or_never(async {
/// let router = Router::builder().add(Tool::new("delete", delete)).build()?;
/// let test = HandlerTest::tool(&router, "delete")
///     .answer("confirm", ElicitResult::accept(serde_json::json!({"sure": true})));
/// for asks in [InputMode::Deliver, InputMode::Suspend] {
///     let report = test.run(asks).await;
///     assert_eq!(report.asked(), ["confirm"]);
///     assert_eq!(report.text(), "deleted: true");
/// }
/// # Ok::<(), wharf::server::BuildError>(())
/// # }).unwrap().unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct HandlerTest {
    router: Router,
    method: Method,
    target: String,
    arguments: Option<String>,
    answers: BTreeMap<String, String>,
    capabilities: ClientCapabilities,
    scope: RequestExtensions,
}

impl HandlerTest {
    /// Calls the tool `name`.
    pub fn tool(router: &Router, name: &str) -> Self {
        HandlerTest::new(router, Method::CallTool, name)
    }

    /// Calls the prompt `name`.
    pub fn prompt(router: &Router, name: &str) -> Self {
        HandlerTest::new(router, Method::GetPrompt, name)
    }

    /// Calls the resource or template that matches `uri`.
    pub fn resource(router: &Router, uri: &str) -> Self {
        HandlerTest::new(router, Method::ReadResource, uri)
    }

    fn new(router: &Router, method: Method, target: &str) -> Self {
        // A client that declares every capability.
        let all = json!({
            "roots": {}, "sampling": {"tools": {}, "context": {}},
            "elicitation": {"form": {}, "url": {}},
        });
        HandlerTest {
            router: router.clone(),
            method,
            target: target.into(),
            arguments: None,
            answers: BTreeMap::new(),
            capabilities: serde_json::from_value(all).unwrap_or_default(),
            scope: RequestExtensions::new(),
        }
    }

    /// Sets the arguments of the call.
    pub fn arguments(mut self, arguments: Value) -> Self {
        self.arguments = Some(arguments.to_string());
        self
    }

    /// Sets the response to the client request with this key: an `ElicitResult`, a
    /// `SamplingResult`, a `RootsResult`, or any JSON to test how a handler treats an invalid
    /// response.
    pub fn answer(mut self, key: &str, answer: impl Serialize) -> Self {
        self.answers.insert(key.into(), json!(answer).to_string());
        self
    }

    /// Sets the capabilities of the client; by default it declares all of them.
    pub fn capabilities(mut self, capabilities: ClientCapabilities) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Sets the principal of the caller.
    pub fn principal(self, principal: Principal) -> Self {
        self.extension(principal)
    }

    /// Adds a request extension, as outer middleware would.
    pub fn extension<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.scope.insert(value);
        self
    }

    /// Runs the call, and retries it as long as there are responses to all of its client requests.
    ///
    /// A client request without a prepared response ends a suspended call with its
    /// [`Outcome::InputRequired`]; with [`InputMode::Deliver`] it is answered with an error.
    pub async fn run(&self, asks: InputMode) -> HandlerTestReport {
        let mut rounds = vec![];
        let mut request = self.request();
        loop {
            let (mut round, outcome) = self.round(request.build(), asks).await;
            let Outcome::InputRequired(required) = &outcome else {
                rounds.push(round);
                return HandlerTestReport { rounds, outcome };
            };
            round.asked.clone_from(&required.requests);
            let asked = required.requests.iter();
            let answers = asked.map(|(key, _)| Some((key, self.answers.get(key)?)));
            let answers = answers.collect::<Option<Vec<_>>>();
            rounds.push(round);
            let (Some(answers), true) = (answers, rounds.len() < MAX_ROUNDS) else {
                return HandlerTestReport { rounds, outcome };
            };
            let pairs: Vec<_> =
                answers.iter().map(|(key, json)| format!("{}:{json}", json!(key))).collect();
            request = self.request().input_responses(&format!("{{{}}}", pairs.join(",")));
            if let Some(state) = &required.state {
                request = request.request_state(state);
            }
        }
    }

    fn request(&self) -> RequestBuilder {
        let request = RequestBuilder::new(self.method).target(&self.target);
        match &self.arguments {
            Some(arguments) => request.arguments(arguments),
            None => request,
        }
    }

    async fn round(&self, request: Request, asks: InputMode) -> (HandlerTestRound, Outcome) {
        let keys = RequestKeys::default();
        let mut request = request.from_peer(Arc::new(Peer::new(None, self.capabilities.clone())));
        request.asks = asks;
        request.progress = true;
        request.log_level = Some(LogLevel::Debug);
        request.scope = self.scope.clone();
        request.scope.insert(keys.clone());
        let forever = Deadlines::NONE;
        let clock = Arc::new(HandlerTestClock::default());
        let mut exchange = ActiveCall::start(&self.router, request, clock, forever);
        let mut round = HandlerTestRound::default();
        loop {
            match poll_fn(|cx| exchange.poll_event(cx)).await {
                Event::Notify(notification) => round.notifications.push(notification),
                Event::ClientRequest(id, ask) => {
                    let key = keys.take(&ask);
                    exchange.response_sender().deliver(id, self.answer_to(&key));
                    round.asked.push((key, ask));
                }
                Event::Withdraw(_) | Event::ConnectionMayClose => {}
                Event::Done(outcome) => return (round, outcome),
            }
        }
    }

    fn answer_to(&self, key: &str) -> Result<String, Error> {
        self.answers.get(key).cloned().ok_or_else(|| {
            let message = format!("the test has no response for `{key}`");
            Error::new(ErrorKind::InvalidRequest).with_message(message)
        })
    }
}

/// Result of a [`HandlerTest`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HandlerTestReport {
    /// Rounds: one for each run of the handler.
    pub rounds: Vec<HandlerTestRound>,
    /// Outcome of the last round.
    pub outcome: Outcome,
}

impl From<Outcome> for HandlerTestReport {
    /// Creates a report without rounds.
    fn from(outcome: Outcome) -> Self {
        HandlerTestReport { rounds: Vec::new(), outcome }
    }
}

impl HandlerTestReport {
    /// Returns the keys of all client requests, in order.
    #[must_use]
    pub fn asked(&self) -> Vec<&str> {
        self.rounds.iter().flat_map(|round| &round.asked).map(|(key, _)| &**key).collect()
    }

    /// Returns the text of a tool's result, of the error it ended with, or of its first client
    /// request.
    #[must_use]
    pub fn text(&self) -> String {
        use wharf_model::{Content, Reply};
        match &self.outcome {
            Outcome::Complete(Reply::Tool(result)) => {
                result.content.iter().filter_map(Content::as_text).collect()
            }
            Outcome::Complete(reply) => format!("{reply:?}"),
            Outcome::Failed(error) => error.to_string(),
            Outcome::InputRequired(required) => format!("{:?}", required.requests),
            _ => String::new(),
        }
    }
}

/// One run of the handler.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct HandlerTestRound {
    /// Client requests of the run, each with its key.
    pub asked: Vec<(String, ClientRequest)>,
    /// Notifications of the run.
    pub notifications: Vec<Notification>,
}

/// Records the keys of delivered client requests, because a client never receives them.
#[derive(Clone, Default)]
pub(crate) struct RequestKeys(Arc<Lock<Vec<(String, ClientRequest)>>>);

impl RequestKeys {
    pub(crate) fn record(&self, key: &str, ask: &ClientRequest) {
        let mut recorded = self.0.lock();
        recorded.push((key.into(), ask.clone()));
    }

    fn take(&self, ask: &ClientRequest) -> String {
        let mut recorded = self.0.lock();
        match recorded.iter().position(|(_, recorded)| recorded == ask) {
            Some(index) => recorded.remove(index).0,
            None => String::new(),
        }
    }
}

/// Clock that jumps to each deadline that is awaited, so that tests take no time.
struct HandlerTestClock {
    started: (Instant, SystemTime),
    passed: Arc<Lock<Duration>>,
}

impl Default for HandlerTestClock {
    fn default() -> Self {
        HandlerTestClock { started: (Instant::now(), SystemTime::now()), passed: Arc::default() }
    }
}

impl HandlerTestClock {
    fn passed(&self) -> Duration {
        *self.passed.lock()
    }
}

impl Timer for HandlerTestClock {
    fn now(&self) -> Instant {
        self.started.0 + self.passed()
    }

    fn wall(&self) -> SystemTime {
        self.started.1 + self.passed()
    }

    fn sleep_until(&self, deadline: Instant) -> BoxFuture<()> {
        let mut passed = self.passed.lock();
        *passed = (*passed).max(deadline.duration_since(self.started.0));
        Box::pin(ready(()))
    }
}
