//! Looking at a task again and again, and being told of it where the server tells.

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
        attempt::{MOST_EVENTS, refuse_here},
        deadline,
        request::CallSpec,
        run,
    },
};

/// How long to wait between two looks if the server does not say.
const UNSAID: Duration = Duration::from_secs(1);
/// How often it may be looked at, and how seldom, whatever the server says.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(60);
/// How often to look at it, at most, where the server agreed to tell: word may be lost.
const TOLD: Duration = Duration::from_secs(10);
/// How long the id of a task may be: it is sent with each look.
const LONGEST_ID: usize = 4096;

/// Looks at a task until nobody wants to know any more.
pub(crate) struct TaskPoller {
    caller: ClientHandle,
    id: String,
    idle: Duration,
    look: PollState,
    /// Hears of the task; gone if the server does not tell.
    ear: Option<ActiveCall>,
    /// Whether the server agreed to tell.
    told: bool,
    /// What was seen last.
    seen: Option<Task>,
    /// Since when there was no sign of life, and how often it was looked for in vain.
    trouble: Option<(Instant, usize)>,
}

enum PollState {
    Pause(BoxFuture<()>),
    /// Since when, and what will be seen.
    At(Instant, BoxFuture<Outcome>),
}

impl TaskPoller {
    /// `seen` is what is known of the task; without it, the first look is at once.
    pub(crate) fn new(
        caller: &ClientHandle,
        id: &str,
        seen: Option<Task>,
        idle: Duration,
    ) -> Result<Self, Error> {
        if id.len() > LONGEST_ID {
            let what = format!("names a task with more than {LONGEST_ID} bytes");
            return Err(run::broken(&what));
        }
        let pause = seen.as_ref().map_or(Duration::ZERO, |task| interval(task, false));
        let look = PollState::Pause(after(caller, pause));
        let (caller, id, ear) = (caller.clone(), id.to_owned(), Some(listen(caller, id)));
        Ok(TaskPoller { caller, id, idle, look, ear, told: false, seen, trouble: None })
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

    /// Where the task stands, each time there is reason to think that it has changed. What the
    /// server says of its progress meanwhile goes to `hear`.
    pub(crate) fn poll_task(
        &mut self,
        hear: &mut dyn FnMut(Notification),
        cx: &mut Context<'_>,
    ) -> Poll<Result<Task, Error>> {
        if let Poll::Ready(task) = self.poll_ear(hear, cx) {
            if matches!(self.look, PollState::Pause(_)) {
                self.pause(interval(&task, self.told));
            }
            return Poll::Ready(Ok(self.saw(task)));
        }
        loop {
            match &mut self.look {
                PollState::Pause(pause) => {
                    ready!(pause.as_mut().poll(cx));
                    let look = get(&self.caller, &self.id, self.idle);
                    self.look = PollState::At(self.caller.timer().now(), look);
                }
                PollState::At(since, look) => {
                    let outcome = ready!(look.as_mut().poll(cx));
                    let since = *since;
                    match self.looked(since, outcome) {
                        Ok(Some(task)) => return Poll::Ready(Ok(task)),
                        Ok(None) => {}
                        Err(error) => return Poll::Ready(Err(error)),
                    }
                }
            }
        }
    }

    fn looked(&mut self, since: Instant, outcome: Outcome) -> Result<Option<Task>, Error> {
        match read(outcome, &self.id) {
            Ok(task) => {
                self.pause(interval(&task, self.told));
                Ok(Some(self.saw(task)))
            }
            Err(error) if error.kind.is_retryable() => self.bear(since, error).map(|()| None),
            Err(error) => Err(error),
        }
    }

    /// Tries again later, unless there was no sign of life for too long.
    fn bear(&mut self, since: Instant, error: Error) -> Result<(), Error> {
        let (since, tries) = self.trouble.unwrap_or((since, 0));
        if self.caller.timer().now().saturating_duration_since(since) >= self.idle {
            return Err(error);
        }
        self.trouble = Some((since, tries + 1));
        let first = self.seen.as_ref().map_or(SHORTEST, |task| interval(task, false));
        self.pause(deadline::backoff(first, tries, LONGEST));
        Ok(())
    }

    fn saw(&mut self, task: Task) -> Task {
        self.trouble = None;
        self.seen = Some(task.clone());
        task
    }

    fn pause(&mut self, pause: Duration) {
        self.look = PollState::Pause(after(&self.caller, jittered(pause)));
    }

    /// What the server tells of the task.
    fn poll_ear(&mut self, hear: &mut dyn FnMut(Notification), cx: &mut Context<'_>) -> Poll<Task> {
        for _ in 0..MOST_EVENTS {
            let Some(ear) = &mut self.ear else { return Poll::Pending };
            match ready!(ear.poll_event(cx)) {
                Event::Notify(Notification::Task(task)) if self.is_news(&task) => {
                    return Poll::Ready(*task);
                }
                // It goes on under the token of the call, which the call itself no longer hears.
                Event::Notify(Notification::TaskProgress {
                    id, progress, total, message, ..
                }) if id == self.id => {
                    hear(Notification::Progress { progress, total, message });
                }
                Event::Notify(Notification::Acknowledged(agreed)) => {
                    self.told = agreed.tasks.contains(&self.id) && is_shown(&self.caller);
                    if !agreed.tasks.contains(&self.id) {
                        self.ear = None;
                    }
                }
                Event::Notify(_) | Event::Withdraw(_) | Event::LetGo => {}
                Event::ClientRequest(id, ask) => {
                    let answers = self.ear.as_ref().map(ActiveCall::answers);
                    answers.map(|it| it.deliver(id, Err(refuse_here(&ask))));
                }
                // It is no loss: who is not told looks.
                Event::Done(_) => (self.ear, self.told) = (None, false),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Word may come late, after a look that saw more.
    fn is_news(&self, task: &Task) -> bool {
        let is_older = |seen: &Task| task.updated_at < seen.updated_at || task == seen;
        task.id == self.id && !self.seen.as_ref().is_some_and(is_older)
    }
}

fn is_shown(caller: &ClientHandle) -> bool {
    caller.manner() == TaskDialect::Extension
}

/// How long to wait until the next look.
fn interval(task: &Task, told: bool) -> Duration {
    let asked = task.poll_interval.map_or(UNSAID, Duration::from_millis);
    let asked = if told { asked.max(TOLD) } else { asked };
    asked.clamp(SHORTEST, LONGEST)
}

/// Up to a tenth longer: many who began together must not look together.
fn jittered(pause: Duration) -> Duration {
    let mut random = [0; 1];
    // Without random numbers there is no jitter, which is no reason to fail.
    let _ = getrandom::fill(&mut random);
    pause + pause.mul_f64(f64::from(random[0]) / 2560.0)
}

fn after(caller: &ClientHandle, pause: Duration) -> BoxFuture<()> {
    let timer = caller.timer().clone();
    Box::pin(async move { deadline::sleep(&timer, pause).await })
}

/// One look.
pub(crate) fn get(caller: &ClientHandle, id: &str, idle: Duration) -> BoxFuture<Outcome> {
    let (caller, id) = (caller.clone(), id.to_owned());
    Box::pin(
        async move { request_mode::plain(&caller, CallSpec::named(Method::GetTask, id), idle).await },
    )
}

/// The task that was asked for, and no other.
pub(crate) fn read(outcome: Outcome, id: &str) -> Result<Task, Error> {
    match outcome {
        Outcome::Complete(Reply::Task(task)) if task.id == id => Ok(*task),
        Outcome::Complete(Reply::Task(_)) => Err(run::broken("shows another task")),
        Outcome::Failed(error) => Err(*error),
        _ => Err(crate::call::result::unexpected()),
    }
}

fn listen(caller: &ClientHandle, id: &str) -> ActiveCall {
    let mut request = CallSpec::new(Method::Listen).build(None).from_peer(caller.peer().clone());
    request.scope = caller.link().scope();
    let tasks = [id.to_owned()].into();
    request.filter = Some(LiveSubscriptionFilter::new(SubscriptionFilter {
        tasks,
        ..SubscriptionFilter::default()
    }));
    request.tasking = TaskRequest::Welcome;
    let endless = Deadlines { idle: None, total: None };
    ActiveCall::start(&*caller.link(), request, caller.timer().clone(), endless).for_caller()
}

/// What is told of a task that nobody can reach any more.
pub(crate) fn out_of_reach(mut error: Error, id: &str) -> Error {
    let lost = "; the server may still be at work on the task";
    error.message = format!("{}{lost} {}", error.message, wharf_model::excerpt(id)).into();
    error
}
