//! Tries out one tool, prompt or resource without a client.

use std::{
    collections::BTreeMap,
    future::{poll_fn, ready},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use serde::Serialize;
use serde_json::{Value, json};
use wharf_model::{
    ActiveCall, BoxFuture, ClientCapabilities, ClientRequest, Deadlines, Error, ErrorKind, Event,
    InputMode, LogLevel, Method, Notification, Outcome, Peer, Principal, Request, RequestBuilder,
    RequestExtensions, Timer,
};

use crate::Router;

/// More rounds than any handler needs: one that asks something new each time never ends.
const MAX_ROUNDS: usize = 32;

/// Calls one tool, prompt or resource with answers written down beforehand, as either kind of
/// client would, and shows every round.
///
/// A handler that asks must behave the same whether its asks are delivered while it waits
/// ([`InputMode::Deliver`]) or met by calling it again ([`InputMode::Suspend`]). Try both:
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; }
/// use wharf::{ClientRequestError, InputMode, Ctx, ElicitResult, Router, Tool, Trial};
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
/// let trial = Trial::tool(&router, "delete")
///     .answer("confirm", ElicitResult::accept(serde_json::json!({"sure": true})));
/// for asks in [InputMode::Deliver, InputMode::Suspend] {
///     let report = trial.run(asks).await;
///     assert_eq!(report.asked(), ["confirm"]);
///     assert_eq!(report.text(), "deleted: true");
/// }
/// # Ok::<(), wharf::BuildError>(())
/// # }).unwrap().unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Trial {
    router: Router,
    method: Method,
    target: String,
    arguments: Option<String>,
    answers: BTreeMap<String, String>,
    capabilities: ClientCapabilities,
    scope: RequestExtensions,
}

impl Trial {
    /// Tries the tool called `name`.
    pub fn tool(router: &Router, name: &str) -> Self {
        Trial::new(router, Method::CallTool, name)
    }

    /// Tries the prompt called `name`.
    pub fn prompt(router: &Router, name: &str) -> Self {
        Trial::new(router, Method::GetPrompt, name)
    }

    /// Tries the resource or template that answers to `uri`.
    pub fn resource(router: &Router, uri: &str) -> Self {
        Trial::new(router, Method::ReadResource, uri)
    }

    fn new(router: &Router, method: Method, target: &str) -> Self {
        // A client that can do everything.
        let all = json!({
            "roots": {}, "sampling": {"tools": {}, "context": {}},
            "elicitation": {"form": {}, "url": {}},
        });
        Trial {
            router: router.clone(),
            method,
            target: target.into(),
            arguments: None,
            answers: BTreeMap::new(),
            capabilities: serde_json::from_value(all).unwrap_or_default(),
            scope: RequestExtensions::new(),
        }
    }

    /// Calls with these arguments.
    pub fn arguments(mut self, arguments: Value) -> Self {
        self.arguments = Some(arguments.to_string());
        self
    }

    /// Answers the ask with this key: with an `ElicitResult`, a `SamplingResult`, a
    /// `RootsResult`, or any JSON to see what a handler does with nonsense.
    pub fn answer(mut self, key: &str, answer: impl Serialize) -> Self {
        self.answers.insert(key.into(), json!(answer).to_string());
        self
    }

    /// Calls as a client that can do only this; without it, the client can do everything.
    pub fn capabilities(mut self, capabilities: ClientCapabilities) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Calls as this principal.
    pub fn principal(self, principal: Principal) -> Self {
        self.extension(principal)
    }

    /// Puts something beside the message, as an outer layer would.
    pub fn extension<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.scope.insert(value);
        self
    }

    /// Calls, and calls again as long as there are answers to what is asked.
    ///
    /// An ask without an answer here ends a suspended trial with its
    /// [`Outcome::InputRequired`]; where asks are delivered, it gets an error for an answer.
    pub async fn run(&self, asks: InputMode) -> TrialReport {
        let mut rounds = vec![];
        let mut request = self.request();
        loop {
            let (mut round, outcome) = self.round(request.build(), asks).await;
            let Outcome::InputRequired(required) = &outcome else {
                rounds.push(round);
                return TrialReport { rounds, outcome };
            };
            round.asked.clone_from(&required.requests);
            let asked = required.requests.iter();
            let answers = asked.map(|(key, _)| Some((key, self.answers.get(key)?)));
            let answers = answers.collect::<Option<Vec<_>>>();
            rounds.push(round);
            let (Some(answers), true) = (answers, rounds.len() < MAX_ROUNDS) else {
                return TrialReport { rounds, outcome };
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

    async fn round(&self, request: Request, asks: InputMode) -> (TrialRound, Outcome) {
        let keys = RequestKeys::default();
        let mut request = request.from_peer(Arc::new(Peer::new(None, self.capabilities.clone())));
        request.asks = asks;
        request.progress = true;
        request.log_level = Some(LogLevel::Debug);
        request.scope = self.scope.clone();
        request.scope.insert(keys.clone());
        let forever = Deadlines { idle: None, total: None };
        let clock = Arc::new(TrialClock::default());
        let mut exchange = ActiveCall::start(&self.router, request, clock, forever);
        let mut round = TrialRound::default();
        loop {
            match poll_fn(|cx| exchange.poll_event(cx)).await {
                Event::Notify(notification) => round.notifications.push(notification),
                Event::ClientRequest(id, ask) => {
                    let key = keys.take(&ask);
                    exchange.answers().deliver(id, self.answer_to(&key));
                    round.asked.push((key, ask));
                }
                Event::Withdraw(_) | Event::LetGo => {}
                Event::Done(outcome) => return (round, outcome),
            }
        }
    }

    fn answer_to(&self, key: &str) -> Result<String, Error> {
        self.answers.get(key).cloned().ok_or_else(|| {
            let message = format!("the trial has no answer to `{key}`");
            Error::new(ErrorKind::InvalidRequest).with_message(message)
        })
    }
}

/// How a [`Trial`] went.
#[derive(Clone, Debug)]
pub struct TrialReport {
    /// The rounds: one for each time the handler ran.
    pub rounds: Vec<TrialRound>,
    /// How the last round ended.
    pub outcome: Outcome,
}

impl TrialReport {
    /// The keys of everything that was asked, in order.
    #[must_use]
    pub fn asked(&self) -> Vec<&str> {
        self.rounds.iter().flat_map(|round| &round.asked).map(|(key, _)| &**key).collect()
    }

    /// The text of a tool's result, of the error it ended with, or of its first question.
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
pub struct TrialRound {
    /// What was asked, each under its key.
    pub asked: Vec<(String, ClientRequest)>,
    /// What was sent on the way.
    pub notifications: Vec<Notification>,
}

/// Notes the keys of asks that are delivered: no client ever sees them.
#[derive(Clone, Default)]
pub(crate) struct RequestKeys(Arc<Mutex<Vec<(String, ClientRequest)>>>);

impl RequestKeys {
    pub(crate) fn record(&self, key: &str, ask: &ClientRequest) {
        let mut recorded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        recorded.push((key.into(), ask.clone()));
    }

    fn take(&self, ask: &ClientRequest) -> String {
        let mut recorded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match recorded.iter().position(|(_, recorded)| recorded == ask) {
            Some(index) => recorded.remove(index).0,
            None => String::new(),
        }
    }
}

/// A clock that jumps ahead whenever somebody waits for it: trials take no time.
struct TrialClock {
    started: (Instant, SystemTime),
    passed: Arc<Mutex<Duration>>,
}

impl Default for TrialClock {
    fn default() -> Self {
        TrialClock { started: (Instant::now(), SystemTime::now()), passed: Arc::default() }
    }
}

impl TrialClock {
    fn passed(&self) -> Duration {
        *self.passed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Timer for TrialClock {
    fn now(&self) -> Instant {
        self.started.0 + self.passed()
    }

    fn wall(&self) -> SystemTime {
        self.started.1 + self.passed()
    }

    fn sleep_until(&self, deadline: Instant) -> BoxFuture<()> {
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        *passed = (*passed).max(deadline.duration_since(self.started.0));
        Box::pin(ready(()))
    }
}
