//! Polls a task with `tasks/get`, and subscribes to its status notifications.

use std::{
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use wharf_model::{
    ActiveCall, BoxFuture, Deadlines, Error, Event, LiveSubscriptionFilter, Method, Notification,
    Outcome, Reply, SubscriptionFilter, Task, TaskRequest,
};

use crate::task::{TaskDialect, request_mode};
use crate::{
    ClientHandle,
    call::{
        backoff,
        events::{MAX_EVENTS_PER_POLL, refuse_here},
        protocol_violation::protocol_violation,
        request::CallSpec,
    },
};

/// Poll interval if the server sends none.
const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Limits of the poll interval, whatever the server sends.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(50);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(60);
/// Shortest poll interval while subscribed: notifications may be lost.
const SUBSCRIBED_POLL_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum length of a task id: it is sent with each poll.
const MAX_TASK_ID_BYTES: usize = 4096;

/// Polls the state of a task.
pub(crate) struct TaskPoller {
    caller: ClientHandle,
    id: String,
    idle: Duration,
    poll: PollState,
    /// Subscription to the task; `None` if the server does not support it.
    subscription: Option<ActiveCall>,
    /// Set once the server has acknowledged the subscription.
    subscribed: bool,
    /// The last known state.
    seen: Option<Task>,
    /// Start of the current series of failed polls, and their number.
    failing_since: Option<(Instant, usize)>,
}

enum PollState {
    Pause(BoxFuture<()>),
    /// Start of the poll, and its future.
    At(Instant, BoxFuture<Outcome>),
}

impl TaskPoller {
    /// `seen` is the known state of the task; without it, the first poll is sent immediately.
    pub(crate) fn new(
        caller: &ClientHandle,
        id: &str,
        seen: Option<Task>,
        idle: Duration,
    ) -> Result<Self, Error> {
        if id.len() > MAX_TASK_ID_BYTES {
            let what = format!("sent a task id of more than {MAX_TASK_ID_BYTES} bytes");
            return Err(protocol_violation(&what));
        }
        let pause = seen.as_ref().map_or(Duration::ZERO, |task| interval(task, false));
        let poll = PollState::Pause(sleep_for(caller, pause));
        let (caller, id, subscription) = (caller.clone(), id.to_owned(), Some(listen(caller, id)));
        Ok(TaskPoller {
            caller,
            id,
            idle,
            poll,
            subscription,
            subscribed: false,
            seen,
            failing_since: None,
        })
    }

    pub(crate) fn caller(&self) -> &ClientHandle {
        &self.caller
    }

    pub(crate) fn idle(&self) -> Duration {
        self.idle
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The state of the task, whenever it may have changed. Progress notifications are passed to
    /// `on_progress`.
    pub(crate) fn poll_task(
        &mut self,
        on_progress: &mut dyn FnMut(Notification),
        cx: &mut Context<'_>,
    ) -> Poll<Result<Task, Error>> {
        if let Poll::Ready(task) = self.poll_subscription(on_progress, cx) {
            if matches!(self.poll, PollState::Pause(_)) {
                self.pause(interval(&task, self.subscribed));
            }
            return Poll::Ready(Ok(self.record(task)));
        }
        loop {
            match &mut self.poll {
                PollState::Pause(pause) => {
                    ready!(pause.as_mut().poll(cx));
                    let poll = get(&self.caller, &self.id, self.idle);
                    self.poll = PollState::At(self.caller.timer().now(), poll);
                }
                PollState::At(since, poll) => {
                    let outcome = ready!(poll.as_mut().poll(cx));
                    let since = *since;
                    match self.polled(since, outcome) {
                        Ok(Some(task)) => return Poll::Ready(Ok(task)),
                        Ok(None) => {}
                        Err(error) => return Poll::Ready(Err(error)),
                    }
                }
            }
        }
    }

    fn polled(&mut self, since: Instant, outcome: Outcome) -> Result<Option<Task>, Error> {
        match read(outcome, &self.id) {
            Ok(task) => {
                self.pause(interval(&task, self.subscribed));
                Ok(Some(self.record(task)))
            }
            Err(error) if error.kind.is_retryable() => {
                self.retry_later(since, error).map(|()| None)
            }
            Err(error) => Err(error),
        }
    }

    /// Schedules a retry, unless polls have failed for longer than the idle timeout.
    fn retry_later(&mut self, since: Instant, error: Error) -> Result<(), Error> {
        let (since, tries) = self.failing_since.unwrap_or((since, 0));
        if self.caller.timer().now().saturating_duration_since(since) >= self.idle {
            return Err(error);
        }
        self.failing_since = Some((since, tries + 1));
        let first = self.seen.as_ref().map_or(MIN_POLL_INTERVAL, |task| interval(task, false));
        self.pause(backoff::backoff(first, tries, MAX_POLL_INTERVAL));
        Ok(())
    }

    fn record(&mut self, task: Task) -> Task {
        self.failing_since = None;
        self.seen = Some(task.clone());
        task
    }

    fn pause(&mut self, pause: Duration) {
        self.poll = PollState::Pause(sleep_for(&self.caller, jittered(pause)));
    }

    /// Polls the subscription for a new state of the task.
    fn poll_subscription(
        &mut self,
        on_progress: &mut dyn FnMut(Notification),
        cx: &mut Context<'_>,
    ) -> Poll<Task> {
        for _ in 0..MAX_EVENTS_PER_POLL {
            let Some(subscription) = &mut self.subscription else { return Poll::Pending };
            match ready!(subscription.poll_event(cx)) {
                Event::Notify(Notification::Task(task)) if self.is_newer(&task) => {
                    return Poll::Ready(*task);
                }
                // Task progress uses the token of the call, which has ended: the subscription
                // receives it.
                Event::Notify(Notification::TaskProgress {
                    id, progress, total, message, ..
                }) if id == self.id => {
                    on_progress(Notification::Progress { progress, total, message });
                }
                Event::Notify(Notification::Acknowledged(agreed)) => {
                    self.subscribed = agreed.tasks.contains(&self.id) && is_extension(&self.caller);
                    if !agreed.tasks.contains(&self.id) {
                        self.subscription = None;
                    }
                }
                Event::Notify(_) | Event::Withdraw(_) | Event::ConnectionMayClose => {}
                Event::ClientRequest(id, ask) => {
                    let answers = self.subscription.as_ref().map(ActiveCall::response_sender);
                    answers.map(|it| it.deliver(id, Err(refuse_here(&ask))));
                }
                // Without a subscription, polling suffices.
                Event::Done(_) => (self.subscription, self.subscribed) = (None, false),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// A notification may arrive after a poll that returned a newer state.
    fn is_newer(&self, task: &Task) -> bool {
        let is_older = |seen: &Task| task.updated_at < seen.updated_at || task == seen;
        task.id == self.id && !self.seen.as_ref().is_some_and(is_older)
    }
}

fn is_extension(caller: &ClientHandle) -> bool {
    caller.task_dialect() == TaskDialect::Extension
}

/// The delay before the next poll.
fn interval(task: &Task, subscribed: bool) -> Duration {
    let interval = task.poll_interval.map_or(DEFAULT_POLL_INTERVAL, Duration::from_millis);
    let interval = if subscribed { interval.max(SUBSCRIBED_POLL_INTERVAL) } else { interval };
    interval.clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL)
}

/// Adds up to 10 % of jitter, so that many clients do not poll at the same time.
fn jittered(pause: Duration) -> Duration {
    let mut random = [0; 1];
    // Without random numbers there is no jitter, which is not a reason to fail.
    let _ = getrandom::fill(&mut random);
    pause + pause.mul_f64(f64::from(random[0]) / 2560.0)
}

fn sleep_for(caller: &ClientHandle, pause: Duration) -> BoxFuture<()> {
    let timer = caller.timer().clone();
    Box::pin(async move { backoff::sleep(&timer, pause).await })
}

/// Sends `tasks/get`.
pub(crate) fn get(caller: &ClientHandle, id: &str, idle: Duration) -> BoxFuture<Outcome> {
    let (caller, id) = (caller.clone(), id.to_owned());
    Box::pin(async move {
        request_mode::send(&caller, CallSpec::named(Method::GetTask, id), idle).await
    })
}

/// Checks that the outcome is the requested task.
pub(crate) fn read(outcome: Outcome, id: &str) -> Result<Task, Error> {
    match outcome {
        Outcome::Complete(Reply::Task(task)) if task.id == id => Ok(*task),
        Outcome::Complete(Reply::Task(_)) => Err(protocol_violation("returned another task")),
        Outcome::Failed(error) => Err(*error),
        _ => Err(crate::call::result::unexpected()),
    }
}

fn listen(caller: &ClientHandle, id: &str) -> ActiveCall {
    let mut request = CallSpec::new(Method::Listen).build(None).from_peer(caller.peer().clone());
    request.scope = caller.transport().scope();
    request.filter =
        Some(LiveSubscriptionFilter::new(SubscriptionFilter::default().tasks([id.to_owned()])));
    request.tasking = TaskRequest::Welcome;
    let no_limits = Deadlines::NONE;
    caller.start_request(&*caller.transport(), request, no_limits).for_caller()
}

/// Adds the id of a task that cannot be reached to the error. The call that created it has arrived.
pub(crate) fn with_task_id(mut error: Error, id: &str) -> Error {
    let lost = "; the server may still be running the task";
    error.message = format!("{}{lost} {}", error.message, wharf_model::excerpt(id)).into();
    error.after_arrival()
}
