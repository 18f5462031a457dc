//! What a handler does with its task: asks, and keeps its steps.

use std::{
    future::poll_fn,
    task::{Poll, Waker},
    time::Duration,
};

use serde_json::value::RawValue;
use wharf_model::{ClientRequest, Error, ErrorKind};

use crate::tasks::run::state::{Link, PAUSES, State, Stop};
use crate::{
    context::client_requests::ClientRequestError,
    tasks::storage::{
        Kept, Update, nested_json,
        record::{Changed, Refusal, Said},
    },
};

/// # For the handler
impl Link {
    /// Puts a question to the task's owner and waits for the answer.
    pub(crate) async fn ask(
        &self,
        key: &str,
        question: &str,
        ask: &ClientRequest,
    ) -> Result<Box<RawValue>, ClientRequestError> {
        let answered = |state: &State| match state.answers.get(key) {
            Some(answer) if answer.question == question => Some(answer.said.clone()),
            _ => None,
        };
        let known = {
            let mut state = self.lock();
            // Asked again before the record heard that nobody waits.
            state.withdrawn.retain(|withdrawn| withdrawn != key);
            answered(&state)
        };
        if let Some(said) = known {
            return understood(said);
        }
        if let Some(problem) = problem(ask, self.options.item) {
            return Err(ClientRequestError::Invalid(format!("`{key}` {problem}")));
        }
        let most = self.options.questions;
        // From here on: the store may have the question even if nobody waits for its word.
        let mut pending = Pending { link: self, key: Some(key) };
        let asked = self
            .insist(|record, now| record.ask(self.fence, (key, question), ask, most, now))
            .await;
        let refused = match asked {
            Update::Done(_, Changed::Yes) => {
                self.ledger.tell(&self.id).await;
                None
            }
            Update::Refused(Refusal::KeyTaken, _) => {
                Some(format!("`{key}` stands for two different questions in one task"))
            }
            Update::Refused(Refusal::TooManyQuestions, _) => {
                Some(format!("a task may ask {most} questions, and this one has"))
            }
            _ => None,
        };
        if let Some(reason) = refused {
            pending.key = None;
            return Err(ClientRequestError::Invalid(reason));
        }
        let said = poll_fn(|cx| {
            let mut state = self.lock();
            if let Some(said) = answered(&state) {
                return Poll::Ready(said);
            }
            if !state.asking.iter().any(|waker| waker.will_wake(cx.waker())) {
                state.asking.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
        pending.key = None;
        understood(said)
    }

    /// The result of a step that was done before.
    pub(crate) fn step(&self, name: &str) -> Option<Box<RawValue>> {
        self.lock().steps.get(name).cloned()
    }

    /// Keeps the result of a step, unless there is one: the first one counts.
    pub(crate) async fn keep(&self, name: &str, json: &RawValue) -> Kept {
        if let Some(error) = self.too_much(name, json) {
            self.stop(Stop::Failed(error));
            return Kept::Lost;
        }
        let mut pause = PAUSES.0;
        let kept = loop {
            match self.ledger.keep(&self.id, self.fence, name, json).await {
                Ok(kept) => break kept,
                Err(_) if self.is_lost() => return Kept::Lost,
                Err(error) => self.rest(&mut pause, &error).await,
            }
        };
        let counts = match &kept {
            Kept::Now => json.to_owned(),
            Kept::Before(earlier) => earlier.clone(),
            Kept::Lost => {
                self.stop(Stop::Lost);
                return kept;
            }
        };
        self.lock().steps.insert(name.into(), counts);
        kept
    }

    fn too_much(&self, name: &str, json: &RawValue) -> Option<Error> {
        let options = &self.options;
        let text = if json.get().len() > options.item {
            let (size, limit) = (json.get().len(), options.item);
            format!("The result of the step `{name}` has {size} bytes; {limit} is the limit")
        } else if self.lock().steps.len() >= options.steps {
            format!("The task has more than {} steps", options.steps)
        } else {
            return None;
        };
        Some(Error::new(ErrorKind::TaskFailed).with_message(text))
    }

    /// What one-time steps are claimed under, and for how long.
    pub(crate) async fn nonce(&self) -> Result<(String, Duration), Error> {
        let now = self.ledger.now().await?;
        let left = self.expires.map_or(u64::MAX, |expires| expires.saturating_sub(now));
        Ok((self.nonce.clone(), Duration::from_millis(left.max(1000))))
    }
}

/// A question that is withdrawn if nobody waits for its answer any more.
struct Pending<'l> {
    link: &'l Link,
    /// None once there is nothing to withdraw.
    key: Option<&'l str>,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let mut state = self.link.lock();
        state.withdrawn.push(key.to_owned());
        let runner = state.runner.take();
        drop(state);
        runner.into_iter().for_each(Waker::wake);
    }
}

fn understood(said: Said) -> Result<Box<RawValue>, ClientRequestError> {
    match said {
        Said::Result(json) => Ok(json),
        Said::Refused(error) => Err(ClientRequestError::Refused((&error).into())),
    }
}

/// Why a question cannot be kept.
fn problem(ask: &ClientRequest, most: usize) -> Option<&'static str> {
    let written = match ask {
        ClientRequest::Elicit(form) => serde_json::to_vec(form),
        ClientRequest::ElicitUrl(url) => serde_json::to_vec(url),
        ClientRequest::Sample(request) => serde_json::to_vec(request),
        _ => return None,
    };
    match written {
        Ok(json) if json.len() <= most && !nested_json::is_too_deep(&json) => None,
        Ok(json) if json.len() <= most => Some("is nested deeper than a question of a task may be"),
        _ => Some("is longer than a question of a task may be"),
    }
}
