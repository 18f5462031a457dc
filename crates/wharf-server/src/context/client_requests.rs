//! Questions to the client, and how they end.

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
use wharf_schema::problems;

use crate::{
    context::{Ctx, elicitation_form},
    key_ring, lenient_json,
    tasks::runtime::TaskRunApi,
};

/// Why an ask brought no answer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ClientRequestError {
    /// The user said no.
    Declined,
    /// The user dismissed the question without an answer.
    Cancelled,
    /// The client answered with an error.
    Refused(Error),
    /// The client has not declared what the question needs.
    Unsupported(ClientCapability),
    /// The question cannot be asked, or the answer does not fit it.
    Invalid(String),
    /// Only tools, prompts and resources can ask.
    NotHere,
    /// The call is over. Only tasks that a handler spawned see this, and plain functions that wait
    /// with [`Ctx::block_on`].
    Suspended,
}

impl fmt::Display for ClientRequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientRequestError::Declined => f.write_str("the user declined to answer"),
            ClientRequestError::Cancelled => {
                f.write_str("the user cancelled: the question was dismissed without an answer")
            }
            ClientRequestError::Refused(error) => {
                write!(f, "the client refused to answer: {error}")
            }
            ClientRequestError::Unsupported(capability) => {
                write!(f, "the client has not declared what this needs: {}", capability.required())
            }
            ClientRequestError::Invalid(reason) => f.write_str(reason),
            ClientRequestError::NotHere => f.write_str("only tools, prompts and resources can ask"),
            ClientRequestError::Suspended => f.write_str("the call is over"),
        }
    }
}

impl std::error::Error for ClientRequestError {}

impl From<ClientRequestError> for Error {
    fn from(error: ClientRequestError) -> Self {
        let kind = match error {
            // What the client answered must not pass for an error of the server's own.
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
        Error::new(kind).with_message(problems::shorten(error.to_string()))
    }
}

/// An answer as it was read: what the handler gets, or why the text is no answer.
type ParsedResponse<T> = Result<Result<T, ClientRequestError>, String>;

/// # Asking the client
///
/// Every ask has a key, unique in the call: the same key with the same question has the same
/// answer. Depending on the client, the await completes when the answer arrives, or the call ends
/// here, and runs again from the top once the client calls again with the answer. So:
/// - effects before or beside an ask belong in a [`step`](Ctx::step), or they are repeated;
/// - a question must be the same on each run: no clock and no random number in its text;
/// - asks that are awaited together (`join!`) go out together;
/// - a race between an ask and something slower than it (`select!` with a timer) may end the call;
/// - an ask from a spawned task may end with [`ClientRequestError::Suspended`].
impl Ctx {
    /// Asks the user to fill in a form with the fields of `T`.
    ///
    /// `T` is a flat struct of texts, numbers, booleans, unit enums and lists of unit enums;
    /// `Option` marks what may be left out.
    ///
    /// ```
    /// # mod wharf { pub use {wharf_model::*, wharf_server::*}; }
    /// # use wharf::{ClientRequestError, Ctx};
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

    /// Asks the user to fill in a form with a schema made at run time: a flat object of texts,
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

    /// Asks the user to open `url`, for what must not pass through the client.
    ///
    /// `Ok` means that the user agreed to go there, not that anything was done there.
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

    /// Like [`ask_url`](Ctx::ask_url), under an id of your own: with it,
    /// [`Registry::elicitation_complete`](crate::Registry::elicitation_complete) can tell the
    /// client later that it is done.
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

    /// Lets the client's model continue a conversation.
    ///
    /// Offering the model tools needs a client that declared it ([`Ctx::can`]); a wish for more
    /// context is left out for a client that did not.
    ///
    /// # Errors
    /// See [`ClientRequestError`].
    pub async fn sample(
        &self,
        key: impl Into<String>,
        mut request: SamplingRequest,
    ) -> Result<SamplingResult, ClientRequestError> {
        // A client that has not declared it need not know the word.
        if !self.can(ClientCapability::SamplingContext) {
            request.include_context = None;
        }
        let ask = ClientRequest::Sample(Box::new(request));
        self.answer(key.into(), ask, |json| Ok(Ok(parse(json)?))).await
    }

    /// The directories the client works in.
    ///
    /// # Errors
    /// See [`ClientRequestError`].
    pub async fn roots(&self, key: impl Into<String>) -> Result<Vec<Root>, ClientRequestError> {
        // Stricter than the model's own type: an answer without roots is no answer.
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
        if self.asks() == InputMode::Suspend {
            let known = self.run().answer_to(&key, &question);
            if let Some(json) = known {
                match read(json.get()) {
                    Ok(answer) => {
                        self.run().keep_answer(key, question, json);
                        return answer;
                    }
                    // What is no answer is asked again.
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
            let reason = format!("the answer has {}", lenient_json::too_many(most));
            return Err(ClientRequestError::Invalid(reason));
        }
        let answer = read(json.get()).map_err(ClientRequestError::Invalid)?;
        self.run().keep_answer(key, question, json);
        answer
    }

    /// The fingerprint of a question that may be asked here and now.
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
            let reason = format!("`{key}` stands for two different questions in one call");
            return Err(ClientRequestError::Invalid(reason));
        }
        Ok(question)
    }

    /// Leaves a question for the client, and waits until the call is over; or until it is a task,
    /// which asks otherwise.
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
            if run.over {
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

    /// Leaves a question with the task, and waits for its owner's answer.
    async fn park(
        &self,
        task_run: &dyn TaskRunApi,
        key: &str,
        question: &str,
        ask: &ClientRequest,
    ) -> Result<Box<RawValue>, ClientRequestError> {
        self.remember_url(ask);
        // How long the owner takes is not the handler's time.
        let _paused = self.outbox().pause();
        self.or_closed(task_run.ask(key, question, ask))
            .await
            .unwrap_or(Err(ClientRequestError::Suspended))
    }

    /// Who was sent to a URL may hear that all is done there.
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

    /// Waits until no other ask with this key is on its way.
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
        // The id is another on each run.
        ClientRequest::ElicitUrl(question) => json!([question.message, question.url]),
        ClientRequest::Sample(request) => json!(request),
        _ => Value::Null,
    };
    key_ring::fingerprint(&json!([ask.method().name(), question]))
}
