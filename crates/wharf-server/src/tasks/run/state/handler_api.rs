//! Operations of a handler on its task: client requests and steps.

use std::{
    future::poll_fn,
    task::{Poll, Waker},
    time::Duration,
};

use serde_json::value::RawValue;
use wharf_model::{ClientRequest, Error, ErrorKind, TaskChange};

use crate::tasks::run::state::{RETRY_PAUSES, RunState, StopReason, TaskRun};
use crate::{
    context::client_requests::ClientRequestError,
    tasks::storage::{
        StepSaveResult, UpdateResult, nested_json,
        record::{ChangeRejection, ClientResponse, RecordChanged},
    },
};

/// # For the handler
impl TaskRun {
    /// Sends a client request to the task's owner and waits for the response.
    pub(crate) async fn ask(
        &self,
        key: &str,
        question: &str,
        ask: &ClientRequest,
    ) -> Result<Box<RawValue>, ClientRequestError> {
        let answered = |state: &RunState| match state.answers.get(key) {
            Some(answer) if answer.question == question => Some(answer.response.clone()),
            _ => None,
        };
        let known = {
            let mut state = self.lock();
            // Requested again before the withdrawal was stored.
            state.withdrawn.retain(|withdrawn| withdrawn != key);
            answered(&state)
        };
        if let Some(response) = known {
            return response_result(response);
        }
        if let Some(problem) = problem(ask, self.options.item) {
            return Err(ClientRequestError::Invalid(format!("`{key}` {problem}")));
        }
        let most = self.options.client_requests;
        // From here on the request may be in the store, even if this future is dropped before the
        // store confirms it.
        let mut pending = PendingInput { task_run: self, key: Some(key) };
        let asked = self
            .change_with_retry(|record, now| {
                record.ask(self.fence, (key, question), ask, most, now)
            })
            .await;
        let refused = match asked {
            UpdateResult::Done(_, RecordChanged::Yes) => {
                self.observe(TaskChange::InputRequired);
                self.task_store.publish_changed(&self.id).await;
                None
            }
            UpdateResult::Refused(ChangeRejection::KeyTaken, _) => {
                Some(format!("`{key}` is used for two different client requests in one task"))
            }
            UpdateResult::Refused(ChangeRejection::TooManyQuestions, _) => {
                Some(format!("a task may send at most {most} client requests"))
            }
            _ => None,
        };
        if let Some(reason) = refused {
            pending.key = None;
            return Err(ClientRequestError::Invalid(reason));
        }
        let response = poll_fn(|cx| {
            let mut state = self.lock();
            if let Some(response) = answered(&state) {
                return Poll::Ready(response);
            }
            if !state.answer_wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
                state.answer_wakers.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
        pending.key = None;
        response_result(response)
    }

    /// Result of a step that was completed before.
    pub(crate) fn step(&self, name: &str) -> Option<Box<RawValue>> {
        self.lock().steps.get(name).cloned()
    }

    /// Stores the result of a step. If there is one already, that one counts.
    pub(crate) async fn save_step(&self, name: &str, json: &RawValue) -> StepSaveResult {
        if let Some(error) = self.step_limit_error(name, json) {
            self.stop(StopReason::Failed(error));
            return StepSaveResult::Lost;
        }
        let mut pause = RETRY_PAUSES.0;
        let kept = loop {
            match self.task_store.save_step(&self.id, self.fence, name, json).await {
                Ok(kept) => break kept,
                Err(_) if self.is_lost() => return StepSaveResult::Lost,
                Err(error) => self.pause_after_failure(&mut pause, &error).await,
            }
        };
        let counts = match &kept {
            StepSaveResult::Saved => {
                self.observe(TaskChange::Step { name });
                json.to_owned()
            }
            StepSaveResult::AlreadySaved(earlier) => earlier.clone(),
            StepSaveResult::Lost => {
                self.stop(StopReason::Lost);
                return kept;
            }
        };
        self.lock().steps.insert(name.into(), counts);
        kept
    }

    fn step_limit_error(&self, name: &str, json: &RawValue) -> Option<Error> {
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

    /// Key for claims of one-time steps, and their lifetime.
    pub(crate) async fn nonce(&self) -> Result<(String, Duration), Error> {
        let now = self.task_store.now().await?;
        let left = self.expires.map_or(u64::MAX, |expires| expires.saturating_sub(now));
        Ok((self.nonce.clone(), Duration::from_millis(left.max(1000))))
    }
}

/// Pending client request, withdrawn when its future is dropped.
struct PendingInput<'l> {
    task_run: &'l TaskRun,
    /// `None` if there is nothing to withdraw.
    key: Option<&'l str>,
}

impl Drop for PendingInput<'_> {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let mut state = self.task_run.lock();
        state.withdrawn.push(key.to_owned());
        let runner_waker = state.runner_waker.take();
        drop(state);
        runner_waker.into_iter().for_each(Waker::wake);
    }
}

fn response_result(response: ClientResponse) -> Result<Box<RawValue>, ClientRequestError> {
    match response {
        ClientResponse::Result(json) => Ok(json),
        ClientResponse::Refused(error) => Err(ClientRequestError::Refused((&error).into())),
    }
}

/// Reason why a client request cannot be stored.
fn problem(ask: &ClientRequest, most: usize) -> Option<&'static str> {
    let written = match ask {
        ClientRequest::Elicit(form) => serde_json::to_vec(form),
        ClientRequest::ElicitUrl(url) => serde_json::to_vec(url),
        ClientRequest::Sample(request) => serde_json::to_vec(request),
        _ => return None,
    };
    match written {
        Ok(json) if json.len() <= most && !nested_json::is_too_deep(&json) => None,
        Ok(json) if json.len() <= most => {
            Some("is nested too deeply for a client request of a task")
        }
        _ => Some("is too long for a client request of a task"),
    }
}
