//! What ties a call to the task it is, or may become.

use std::{
    future::poll_fn,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use wharf_model::{Error, ErrorKind};

use crate::{context::WeakCtx, tasks::runtime::Hold};

/// Travels in the scope of a call that is a task or may become one.
#[derive(Clone, Default)]
pub(crate) struct Bond(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    stage: Stage,
    ctx: Option<WeakCtx>,
    /// Why it did not become a task when its handler wanted that.
    refused: Option<Error>,
    /// Handlers that wait to be detached.
    waiting: Vec<Waker>,
    /// Who can make a task of the call.
    maker: Option<Waker>,
}

#[derive(Default)]
enum Stage {
    /// A call like any other, so far.
    #[default]
    Plain,
    /// The handler wants it to be a task from here on.
    Wanted,
    Task(Arc<dyn Hold>),
}

impl Bond {
    /// The bond of a call that is a task from its beginning.
    pub(crate) fn with(link: Arc<dyn Hold>) -> Self {
        let bond = Bond::default();
        bond.lock().stage = Stage::Task(link);
        bond
    }

    /// The task, if it is one.
    pub(crate) fn link(&self) -> Option<Arc<dyn Hold>> {
        match &self.lock().stage {
            Stage::Task(link) => Some(link.clone()),
            _ => None,
        }
    }

    pub(crate) fn is_task(&self) -> bool {
        matches!(self.lock().stage, Stage::Task(_))
    }

    /// Remembers whose steps and answers go into the task.
    pub(crate) fn attach(&self, ctx: WeakCtx) {
        self.lock().ctx = Some(ctx);
    }

    pub(crate) fn ctx(&self) -> Option<crate::Ctx> {
        self.lock().ctx.as_ref()?.upgrade()
    }

    /// Makes it a task. Who waits for that must be woken.
    pub(crate) fn bind(&self, link: Arc<dyn Hold>) -> Vec<Waker> {
        let mut state = self.lock();
        state.stage = Stage::Task(link);
        mem::take(&mut state.waiting)
    }

    /// It does not become a task now.
    pub(crate) fn decline(&self, why: Error) {
        let mut state = self.lock();
        (state.stage, state.refused) = (Stage::Plain, Some(why));
        let waiting = mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Ready when the handler wants the call to be a task.
    pub(crate) fn poll_wanted(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if matches!(state.stage, Stage::Wanted) {
            return Poll::Ready(());
        }
        let old = state.maker.replace(cx.waker().clone());
        drop(state);
        drop(old);
        Poll::Pending
    }

    /// Asks for a task, and waits until it is one.
    pub(crate) async fn detach(&self) -> Result<(), Error> {
        let mut asked = false;
        poll_fn(|cx| self.poll_detach(&mut asked, cx)).await
    }

    fn poll_detach(&self, asked: &mut bool, cx: &Context<'_>) -> Poll<Result<(), Error>> {
        let mut state = self.lock();
        match (&state.stage, *asked) {
            (Stage::Task(_), _) => return Poll::Ready(Ok(())),
            (Stage::Plain, true) => {
                let why = state.refused.clone();
                let why = why.unwrap_or_else(|| Error::new(ErrorKind::TemporarilyUnavailable));
                return Poll::Ready(Err(why));
            }
            _ => *asked = true,
        }
        state.stage = Stage::Wanted;
        if !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            state.waiting.push(cx.waker().clone());
        }
        let maker = state.maker.take();
        drop(state);
        maker.into_iter().for_each(Waker::wake);
        Poll::Pending
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
