//! Requests from a handler to the client: elicitation, sampling and roots.

use std::{
    fmt,
    future::poll_fn,
    task::{Poll, Waker},
};

use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};
use wharf_model::{
    ClientCapability, ClientRequest, ElicitAction, ElicitForm, ElicitResult, ElicitUrl, Error,
    ErrorKind, InputMode, Root, SamplingRequest, SamplingResult,
};
use wharf_schema::problem_report;

use crate::{
    context::{Ctx, elicitation_form},
    key_ring, lenient_json,
    tasks::runtime::TaskRunApi,
};

/// Error of a request to the client.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ClientRequestError {
    /// The user declined.
    Declined,
    /// The user dismissed the request without an answer.
    Cancelled,
    /// The client responded with an error.
    Refused(Error),
    /// The client has not declared the capability that the request needs.
    Unsupported(ClientCapability),
    /// The request is not valid here, or the response does not fit it.
    Invalid(String),
    /// Only tools, prompts and resources can send client requests.
    NotHere,
    /// The call has ended. Only futures that a handler spawned receive this, and plain functions
    /// that wait with [`Ctx::block_on`].
    Suspended,
}

impl fmt::Display for ClientRequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientRequestError::Declined => f.write_str("the user declined to answer"),
            ClientRequestError::Cancelled => {
                f.write_str("the user cancelled: the request was dismissed without an answer")
            }
            ClientRequestError::Refused(error) => {
                write!(f, "the client returned an error: {error}")
            }
            ClientRequestError::Unsupported(capability) => {
                write!(
                    f,
                    "the client has not declared the required capability: {}",
                    capability.required()
                )
            }
            ClientRequestError::Invalid(reason) => f.write_str(reason),
            ClientRequestError::NotHere => {
                f.write_str("only tools, prompts and resources can send client requests")
            }
            ClientRequestError::Suspended => f.write_str("the call has ended"),
        }
    }
}

impl std::error::Error for ClientRequestError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ClientRequestError::Refused(error) => Some(error),
            _ => None,
        }
    }
}

impl From<ClientRequestError> for Error {
    fn from(error: ClientRequestError) -> Self {
        let kind = match error {
            // An error of the client must not look like an error of this server.
            ClientRequestError::Refused(_) => ErrorKind::RefusedDependencyFailed,
            ClientRequestError::Unsupported(capability) => {
                return Error::missing_capability(capability);
            }
            ClientRequestError::Declined | ClientRequestError::Cancelled => {
                ErrorKind::ToolCancelled
            }
            ClientRequestError::Invalid(_) => ErrorKind::ValidationFailed,
            ClientRequestError::NotHere => ErrorKind::InternalError,
            ClientRequestError::Suspended => ErrorKind::RequestCancelled,
        };
        Error::new(kind).with_message(problem_report::shorten(error.to_string()))
    }
}

/// Parsed response: the value for the handler, or the reason why the text is not a valid response.
type ParsedResponse<T> = Result<Result<T, ClientRequestError>, String>;

/// # Client requests
///
/// Every request has a key, unique in the call: the same key with the same request gives the same
/// response. Depending on the client, the await completes when the response arrives, or the call
/// ends here and runs again from the top once the client retries it with the response. So:
/// - put effects before or beside a request into a [`step`](Ctx::step), or they are repeated;
/// - a request must be the same on each run: no clock and no random number in its text;
/// - requests that are awaited together (`join!`) are sent together;
/// - a race between a request and something slower (`select!` with a timer) may end the call;
/// - a request from a spawned task may end with [`ClientRequestError::Suspended`].
impl Ctx {
    /// Asks the user to fill in a form with the fields of `T`.
    ///
    /// `T` is a flat struct of strings, numbers, booleans, unit enums and lists of unit enums;
    /// `Option` marks optional fields.
    ///
    /// ```
    /// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod server { pub use super::*; } }
    /// # use wharf::{Ctx, server::ClientRequestError};
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Confirm {
    ///     /// Really?
    ///     sure: bool,
    /// }
    ///
    /// async fn delete(ctx: Ctx) -> Result<String, ClientRequestError> {
    ///     let confirm: Confirm = ctx.ask("confirm", "Delete everything?").await?;
    ///     Ok(if confirm.sure { "deleted" } else { "kept" }.into())
    /// }
    /// ```
    ///
    /// # Errors
    /// See [`ClientRequestError`].
    pub async fn ask<T: DeserializeOwned + JsonSchema>(
        &self,
        key: impl Into<String>,
        message: impl Into<String>,
    ) -> Result<T, ClientRequestError> {
        let schema = elicitation_form::form_schema::<T>().map_err(ClientRequestError::Invalid)?;
        let form = ElicitForm::new(message, schema.clone());
        let read = |json: &str| {
            read_form(&schema, json)?
                .map(|content| serde_json::from_value(content).map_err(|error| error.to_string()))
                .map_or_else(|error| Ok(Err(error)), |content| content.map(Ok))
        };
        self.answer(key.into(), ClientRequest::Elicit(Box::new(form)), read).await
    }

    /// Asks the user to fill in a form with a schema made at run time: a flat object of strings,
    /// numbers, booleans and choices.
    ///
    /// # Errors
    /// See [`ClientRequestError`].
    pub async fn ask_form(
        &self,
        key: impl Into<String>,
        message: impl Into<String>,
        schema: Value,
    ) -> Result<Value, ClientRequestError> {
        let schema = elicitation_form::restrict(&schema).map_err(ClientRequestError::Invalid)?;
        let form = ElicitForm::new(message, schema.clone());
        let read = |json: &str| read_form(&schema, json);
        self.answer(key.into(), ClientRequest::Elicit(Box::new(form)), read).await
    }

    /// Asks the user to open `url`, for data that must not pass through the client.
    ///
    /// `Ok` means that the user agreed to open it, not that the user completed anything there.
    ///
    /// # Errors
    /// See [`ClientRequestError`].
    pub async fn ask_url(
        &self,
        key: impl Into<String>,
        message: impl Into<String>,
        url: impl Into<String>,
    ) -> Result<(), ClientRequestError> {
        let id = key_ring::random_name().map_err(ClientRequestError::Refused)?;
        self.ask_url_as(key, id, message, url).await
    }

    /// Like [`ask_url`](Ctx::ask_url), with an id of your own, so that
    /// [`Registry::elicitation_complete`](crate::Registry::elicitation_complete) can notify the
    /// client of the completion later.
    ///
    /// # Errors
    /// See [`ClientRequestError`].
    pub async fn ask_url_as(
        &self,
        key: impl Into<String>,
        id: impl Into<String>,
        message: impl Into<String>,
        url: impl Into<String>,
    ) -> Result<(), ClientRequestError> {
        let question = ElicitUrl::new(message, url).id(id);
        let ask = ClientRequest::ElicitUrl(Box::new(question));
        self.answer(key.into(), ask, |json| Ok(read_elicited(json)?.map(drop))).await
    }

    /// Requests a completion from the client's model (`sampling/createMessage`).
    ///
    /// Tools need a client that declared them ([`Ctx::can`]); `include_context` is removed for a
    /// client that did not declare it.
    ///
    /// # Errors
    /// See [`ClientRequestError`].
    pub async fn sample(
        &self,
        key: impl Into<String>,
        mut request: SamplingRequest,
    ) -> Result<SamplingResult, ClientRequestError> {
        // A client that has not declared the capability need not support the field.
        if !self.can(ClientCapability::SamplingContext) {
            request.include_context = None;
        }
        let ask = ClientRequest::Sample(Box::new(request));
        self.answer(key.into(), ask, |json| Ok(Ok(parse(json)?))).await
    }

    /// Requests the client's roots: the directories it works in.
    ///
    /// # Errors
    /// See [`ClientRequestError`].
    pub async fn roots(&self, key: impl Into<String>) -> Result<Vec<Root>, ClientRequestError> {
        // Stricter than the model's own type: a response without roots is not valid.
        #[derive(Deserialize)]
        struct Roots {
            roots: Vec<Root>,
        }
        self.answer(key.into(), ClientRequest::Roots, |json| Ok(Ok(parse::<Roots>(json)?.roots)))
            .await
    }

    async fn answer<T>(
        &self,
        key: String,
        ask: ClientRequest,
        read: impl Fn(&str) -> ParsedResponse<T>,
    ) -> Result<T, ClientRequestError> {
        let question = self.question(&key, &ask)?;
        if self.input_mode() == InputMode::Suspend {
            let known = self.run().answer_to(&key, &question);
            if let Some(json) = known {
                match read(json.get()) {
                    Ok(answer) => {
                        self.run().keep_answer(key, question, json);
                        return answer;
                    }
                    // An invalid response is requested again.
                    Err(_) => self.run().drop_answer(&key),
                }
            }
            self.wait_for_retry(key.clone(), question.clone(), ask.clone()).await?;
        }
        let _turn = self.turn(&key).await;
        let known = self.run().answer_to(&key, &question);
        let json = match (known, self.task_run()) {
            (Some(json), _) => json,
            (None, Some(task_run)) => self.park(&*task_run, &key, &question, &ask).await?,
            (None, None) => self.deliver(&key, ask).await?,
        };
        let most = self.server().limits.argument_values;
        if !lenient_json::is_within(json.get(), most) {
            let reason = format!("the response has {}", lenient_json::too_many(most));
            return Err(ClientRequestError::Invalid(reason));
        }
        let answer = read(json.get()).map_err(ClientRequestError::Invalid)?;
        self.run().keep_answer(key, question, json);
        answer
    }

    /// Validates that the request may be sent here and now; returns its fingerprint.
    fn question(&self, key: &str, ask: &ClientRequest) -> Result<String, ClientRequestError> {
        if !self.request().is_some_and(|request| request.method.info().may_suspend) {
            return Err(ClientRequestError::NotHere);
        }
        if !self.can(ask.needs()) {
            return Err(ClientRequestError::Unsupported(ask.needs()));
        }
        if self.is_in_step() {
            return Err(ClientRequestError::Invalid(format!(
                "`{key}` was asked inside a step: ask before it"
            )));
        }
        let question = fingerprint(ask);
        if !self.run().ask(key, &question) {
            let reason = format!("`{key}` is used for two different client requests in one call");
            return Err(ClientRequestError::Invalid(reason));
        }
        Ok(question)
    }

    /// Leaves the request for the client and waits until the call ends, or until it becomes a task,
    /// which sends requests differently.
    async fn wait_for_retry(
        &self,
        key: String,
        question: String,
        ask: ClientRequest,
    ) -> Result<(), ClientRequestError> {
        struct WithdrawOnDrop<'c>(&'c Ctx, u64);
        impl Drop for WithdrawOnDrop<'_> {
            fn drop(&mut self) {
                self.0.run().withdraw(self.1);
            }
        }
        let number = self.run().add_question(key, question, ask);
        let _pending = WithdrawOnDrop(self, number);
        self.wake_driver();
        poll_fn(|cx| {
            let mut run = self.run();
            if run.is_over {
                return Poll::Ready(Err(ClientRequestError::Suspended));
            }
            if run.is_task {
                return Poll::Ready(Ok(()));
            }
            run.wait(cx.waker());
            Poll::Pending
        })
        .await
    }

    /// Adds the request to the task, and waits for its owner's response.
    async fn park(
        &self,
        task_run: &dyn TaskRunApi,
        key: &str,
        question: &str,
        ask: &ClientRequest,
    ) -> Result<Box<RawValue>, ClientRequestError> {
        self.remember_url(ask);
        // The time that the owner takes does not count towards the deadlines.
        let _paused = self.outbox().pause();
        self.or_closed(task_run.ask(key, question, ask))
            .await
            .unwrap_or(Err(ClientRequestError::Suspended))
    }

    /// Remembers the client of a URL elicitation, to notify it of the completion.
    fn remember_url(&self, ask: &ClientRequest) {
        if let ClientRequest::ElicitUrl(question) = ask
            && let Some(id) = &question.id
        {
            self.server().subscription_table.remember_elicitation(id, &self.client());
        }
    }

    async fn deliver(
        &self,
        key: &str,
        ask: ClientRequest,
    ) -> Result<Box<RawValue>, ClientRequestError> {
        if let Some(keys) = self.extension::<crate::testing::RequestKeys>() {
            keys.record(key, &ask);
        }
        self.remember_url(&ask);
        match self.outbox().ask(ask).await {
            Ok(json) => {
                RawValue::from_string(json).map_err(|e| ClientRequestError::Invalid(e.to_string()))
            }
            Err(_) if self.outbox().is_closed() => Err(ClientRequestError::Suspended),
            Err(error) => Err(ClientRequestError::Refused(error)),
        }
    }

    /// Waits until no other request with this key is in flight.
    async fn turn(&self, key: &str) -> impl Drop + use<'_> {
        struct TurnGuard<'c>(&'c Ctx, String);
        impl Drop for TurnGuard<'_> {
            fn drop(&mut self) {
                let waiting = self.0.run().end_turn(&self.1);
                waiting.into_iter().for_each(Waker::wake);
            }
        }
        poll_fn(|cx| {
            let mut run = self.run();
            if run.begin_turn(key) {
                return Poll::Ready(());
            }
            run.wait(cx.waker());
            Poll::Pending
        })
        .await;
        TurnGuard(self, key.into())
    }
}

fn parse<T: DeserializeOwned>(json: &str) -> Result<T, String> {
    serde_json::from_str(json).map_err(|error| error.to_string())
}

fn read_elicited(json: &str) -> ParsedResponse<Option<Value>> {
    let result: ElicitResult = parse(json)?;
    Ok(match result.action {
        ElicitAction::Accept => Ok(result.content),
        ElicitAction::Decline => Err(ClientRequestError::Declined),
        ElicitAction::Cancel => Err(ClientRequestError::Cancelled),
    })
}

fn read_form(schema: &Value, json: &str) -> ParsedResponse<Value> {
    match read_elicited(json)? {
        Ok(content) => elicitation_form::check(schema, content).map(Ok),
        Err(error) => Ok(Err(error)),
    }
}

fn fingerprint(ask: &ClientRequest) -> String {
    let question = match ask {
        ClientRequest::Elicit(form) => json!(form),
        // The id differs on each run.
        ClientRequest::ElicitUrl(question) => json!([question.message, question.url]),
        ClientRequest::Sample(request) => json!(request),
        _ => Value::Null,
    };
    key_ring::fingerprint(&json!([ask.method().name(), question]))
}
