//! Follows a task to its end: polls it, answers its input requests, fetches its result.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    task::{Context, Poll},
    time::Duration,
};

use serde_json::Value;
use wharf_model::{
    BoxFuture, ClientRequest, Deadlines, Error, ErrorKind, InputMode, Method, Outcome, Reply, Task,
    TaskRequest, TaskState, ToolResult,
};

use super::{TaskDialect, TaskPoller};
use crate::ClientHandle;
use crate::task::{poll, request_mode};
use crate::{
    call::{
        backoff,
        events::{CallEvents, RequestAttempt},
        protocol_violation::{limit_exceeded, protocol_violation},
        request::{CallSpec, RetryParams},
        total_timeout,
    },
    server_requests::{dispatch, dispatch::AnswerError},
};

/// Maximum number of retries of a task request after the connection broke, and the first delay.
const MAX_RETRIES: usize = 5;
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// Error of following a task.
pub(crate) enum FollowError {
    /// The task has ended with this error.
    Over(Error),
    /// The server cannot be reached. The task may still be running.
    Lost(Error),
    /// The task cannot be followed any further, and should be cancelled.
    Abandoned(Error),
}

impl FollowError {
    /// Classifies the error of a task request.
    fn of(error: Error) -> Self {
        match error.kind {
            _ if is_interruption(&error) => FollowError::Lost(error),
            kind if kind.is_retryable() => FollowError::Abandoned(error),
            _ => FollowError::Over(error),
        }
    }
}

impl From<FollowError> for Error {
    fn from(ending: FollowError) -> Self {
        let (FollowError::Over(error) | FollowError::Lost(error) | FollowError::Abandoned(error)) =
            ending;
        error
    }
}

/// Follows a task to its end: answers its input requests, and fetches the result if that needs a
/// request of its own.
///
/// Returns the result, and whether the task requested input.
pub(crate) async fn follow(
    poller: TaskPoller,
    task: Option<Task>,
    events: &mut dyn CallEvents,
) -> (Result<ToolResult, FollowError>, bool) {
    let mut follow = TaskFollower {
        task_dialect: poller.caller().task_dialect(),
        poller,
        events,
        known: BTreeMap::new(),
        answering: Vec::new(),
        answers: BTreeMap::new(),
        rounds: 0,
        fetch: None,
        input_requested: false,
    };
    let result = follow.run(task).await;
    let lost = |ending| match ending {
        FollowError::Lost(error) => {
            FollowError::Lost(poll::with_task_id(error, follow.poller.id()))
        }
        other => other,
    };
    (result.map_err(lost), follow.input_requested)
}

struct TaskFollower<'a> {
    poller: TaskPoller,
    task_dialect: TaskDialect,
    events: &'a mut dyn CallEvents,
    /// All input requests so far: each is passed on once.
    known: BTreeMap<String, ClientRequest>,
    answering: Vec<(String, BoxFuture<Result<String, AnswerError>>)>,
    /// Answers that are collected until all can be sent together.
    answers: BTreeMap<String, String>,
    rounds: usize,
    fetch: Option<RequestAttempt>,
    input_requested: bool,
}

enum FollowEvent {
    Saw(Result<Task, Error>),
    /// All open requests are answered.
    Answered(Result<(), AnswerError>),
    Fetched(Outcome),
}

impl TaskFollower<'_> {
    async fn run(&mut self, first: Option<Task>) -> Result<ToolResult, FollowError> {
        if let Some(task) = first
            && let Some(result) = self.on_task(task).await?
        {
            return Ok(result);
        }
        loop {
            match self.next().await {
                FollowEvent::Saw(task) => {
                    if let Some(result) = self.on_task(task.map_err(FollowError::of)?).await? {
                        return Ok(result);
                    }
                }
                FollowEvent::Answered(answered) => {
                    answered.map_err(|why| FollowError::Abandoned(why.into()))?;
                    self.send_answers().await.map_err(FollowError::of)?;
                }
                FollowEvent::Fetched(outcome) => {
                    self.fetch = None;
                    match result(outcome) {
                        // The poller signals when another attempt is useful.
                        Err(error) if is_interruption(&error) => {}
                        end => return end.map_err(FollowError::Over),
                    }
                }
            }
        }
    }

    async fn next(&mut self) -> FollowEvent {
        poll_fn(|cx| {
            if let Some(attempt) = &mut self.fetch
                && let Poll::Ready((outcome, input_requested)) = attempt.poll_end(self.events, cx)
            {
                self.input_requested |= input_requested;
                return Poll::Ready(FollowEvent::Fetched(outcome));
            }
            if let Poll::Ready(answered) = self.poll_answers(cx) {
                return Poll::Ready(FollowEvent::Answered(answered));
            }
            let events = &mut *self.events;
            self.poller
                .poll_task(&mut |notification| events.notify(notification), cx)
                .map(FollowEvent::Saw)
        })
        .await
    }

    fn poll_answers(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), AnswerError>> {
        let (answers, mut failed) = (&mut self.answers, None);
        self.answering.retain_mut(|(key, answering)| match answering.as_mut().poll(cx) {
            Poll::Pending => true,
            Poll::Ready(Ok(json)) => {
                answers.insert(std::mem::take(key), json);
                false
            }
            Poll::Ready(Err(why)) => {
                failed = Some(why);
                false
            }
        });
        match failed {
            Some(why) => Poll::Ready(Err(why)),
            None if self.answering.is_empty() && !self.answers.is_empty() => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    }

    /// Handles the state of the task; returns the result if there is one.
    async fn on_task(&mut self, task: Task) -> Result<Option<ToolResult>, FollowError> {
        self.events.on_task(&task);
        Ok(match (task.state, self.task_dialect) {
            (TaskState::Cancelled, _) => return Err(FollowError::Over(cancelled(task.message))),
            (TaskState::Completed(_) | TaskState::Failed(_), TaskDialect::Legacy) => {
                Some(self.fetch_result().await.map_err(FollowError::of)?)
            }
            (TaskState::InputRequired(_), TaskDialect::Legacy) => {
                let begin = || start_fetch(self.poller.caller(), self.poller.id(), None);
                self.fetch.get_or_insert_with(begin);
                None
            }
            (TaskState::InputRequired(requests), _) => {
                self.add_requests(requests).map_err(FollowError::Abandoned)?;
                None
            }
            (TaskState::Completed(result), _) => Some(*result),
            (TaskState::Failed(error), _) => return Err(FollowError::Over(*error)),
            _ => {
                self.drop_closed(&[]);
                None
            }
        })
    }

    /// Passes on the input requests that are new.
    fn add_requests(&mut self, requests: Vec<(String, ClientRequest)>) -> Result<(), Error> {
        self.drop_closed(&requests);
        if requests.len() > dispatch::MAX_OPEN_REQUESTS {
            return Err(protocol_violation(&format!(
                "sent more than {} input requests at once",
                dispatch::MAX_OPEN_REQUESTS
            )));
        }
        let mut is_new = false;
        for (key, ask) in requests {
            match self.known.get(&key) {
                Some(known) if *known == ask => continue,
                Some(_) => {
                    return Err(protocol_violation(
                        "sent another input request with a key it has used",
                    ));
                }
                None => {}
            }
            (is_new, self.input_requested) = (true, true);
            self.answering.push((key.clone(), self.events.ask(ask.clone())));
            self.known.insert(key, ask);
        }
        let most = self.poller.caller().options().rounds;
        if is_new {
            self.rounds += 1;
            if self.rounds > most {
                return Err(limit_exceeded(&format!("requested input more than {most} times")));
            }
        }
        Ok(())
    }

    /// Drops requests that are no longer open: another client has answered them.
    fn drop_closed(&mut self, open: &[(String, ClientRequest)]) {
        let known = &mut self.known;
        self.answering.retain(|(key, _)| {
            let is_open = open.iter().any(|(open, _)| open == key);
            if !is_open {
                known.remove(key);
            }
            is_open
        });
    }

    /// Sends the answers (`tasks/update`). The server applies each once, so a retry is safe.
    async fn send_answers(&mut self) -> Result<(), Error> {
        let answers = std::mem::take(&mut self.answers);
        let pairs = answers.into_iter().map(|(key, json)| format!("{}:{json}", Value::from(key)));
        let answers = format!("{{{}}}", pairs.collect::<Vec<_>>().join(","));
        let (caller, id) = (self.poller.caller().clone(), self.poller.id().to_owned());
        let mut tries = 0;
        loop {
            match update(&caller, &id, answers.clone(), self.poller.idle()).await {
                Err(error) if is_interruption(&error) && tries < MAX_RETRIES => {
                    let pause = backoff::backoff(RETRY_DELAY, tries, RETRY_DELAY * 16);
                    backoff::sleep(caller.timer(), pause).await;
                    tries += 1;
                }
                brought => return brought,
            }
        }
    }

    /// Fetches the result of a task that has ended.
    async fn fetch_result(&mut self) -> Result<ToolResult, Error> {
        let (caller, id) = (self.poller.caller().clone(), self.poller.id().to_owned());
        let mut tries = 0;
        loop {
            let idle = self.poller.idle();
            let mut attempt =
                self.fetch.take().unwrap_or_else(|| start_fetch(&caller, &id, Some(idle)));
            let ended = poll_fn(|cx| attempt.poll_end(self.events, cx).map(|(end, _)| Ok(end)));
            match result(
                total_timeout::within(caller.timer(), idle, total_timeout::IDLE, ended).await?,
            ) {
                Err(error) if is_interruption(&error) && tries < MAX_RETRIES => {
                    let pause = backoff::backoff(RETRY_DELAY, tries, RETRY_DELAY * 16);
                    backoff::sleep(caller.timer(), pause).await;
                    tries += 1;
                }
                end => return end,
            }
        }
    }
}

/// Starts `tasks/result`. The server may send input requests during it.
pub(crate) fn start_fetch(
    caller: &ClientHandle,
    id: &str,
    idle: Option<Duration>,
) -> RequestAttempt {
    let spec = CallSpec::named(Method::TaskResult, id);
    let mut request = spec.build(None).from_peer(caller.peer().clone());
    request.scope = caller.transport().scope();
    request.asks = InputMode::Deliver;
    request.tasking = TaskRequest::Welcome;
    let deadlines = Deadlines::NONE.idle(idle);
    let active_call = caller.start_request(&*caller.transport(), request, deadlines);
    RequestAttempt::new(active_call.for_caller())
}

pub(crate) fn result(outcome: Outcome) -> Result<ToolResult, Error> {
    match outcome {
        Outcome::Complete(Reply::Tool(result)) => Ok(result),
        Outcome::Failed(error) => Err(*error),
        _ => Err(crate::call::result::unexpected()),
    }
}

/// Sends answers to a task: a JSON object, as text.
pub(crate) async fn update(
    caller: &ClientHandle,
    id: &str,
    answers: String,
    idle: Duration,
) -> Result<(), Error> {
    let spec = CallSpec::named(Method::UpdateTask, id);
    let retry = RetryParams { responses: Some(answers), state: None };
    match request_mode::send_with(caller, spec, Some(&retry), idle).await {
        Outcome::Complete(_) => Ok(()),
        Outcome::Failed(error) => Err(*error),
        _ => Err(crate::call::result::unexpected()),
    }
}

fn is_interruption(error: &Error) -> bool {
    match error.kind {
        ErrorKind::ConnectionClosed | ErrorKind::TransportError => true,
        // On an open stream this means that the token expired meanwhile; a retry attaches a new
        // one.
        ErrorKind::Unauthenticated => {
            error.data.as_ref().is_none_or(|it| it.get("httpStatus").is_none())
        }
        _ => false,
    }
}

pub(crate) fn cancelled(message: Option<String>) -> Error {
    let error = Error::new(ErrorKind::TaskCancelled);
    match message {
        Some(message) => error.with_message(message),
        None => error,
    }
}
