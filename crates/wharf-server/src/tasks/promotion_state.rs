//! State of a call that is a task or may become one, shared with its handler.

use std::{
    future::poll_fn,
    mem,
    sync::{Arc, MutexGuard},
    task::{Context, Poll, Waker},
};

use wharf_model::{Error, ErrorKind, Lock};

use crate::{context::WeakCtx, tasks::runtime::TaskRunApi};

/// Promotion state in the extensions of a call that is a task or may become one.
#[derive(Clone, Default)]
pub(crate) struct TaskPromotion(Arc<Lock<PromotionState>>);

#[derive(Default)]
struct PromotionState {
    stage: PromotionStage,
    ctx: Option<WeakCtx>,
    /// Error of the last promotion that the handler requested.
    refused: Option<Error>,
    /// Handlers that wait to be detached.
    waiting: Vec<Waker>,
    /// Wakes the component that can promote the call.
    promoter: Option<Waker>,
}

#[derive(Default)]
enum PromotionStage {
    /// A plain call so far.
    #[default]
    Plain,
    /// The handler has requested the promotion.
    Requested,
    Task(Arc<dyn TaskRunApi>),
}

impl TaskPromotion {
    /// State of a call that is a task from the start.
    pub(crate) fn for_task(task_run: Arc<dyn TaskRunApi>) -> Self {
        let promotion = TaskPromotion::default();
        promotion.lock().stage = PromotionStage::Task(task_run);
        promotion
    }

    /// The task run, if the call is a task.
    pub(crate) fn task_run(&self) -> Option<Arc<dyn TaskRunApi>> {
        match &self.lock().stage {
            PromotionStage::Task(task_run) => Some(task_run.clone()),
            _ => None,
        }
    }

    pub(crate) fn is_task(&self) -> bool {
        matches!(self.lock().stage, PromotionStage::Task(_))
    }

    /// Sets the context whose steps and responses go into the task.
    pub(crate) fn attach(&self, ctx: WeakCtx) {
        self.lock().ctx = Some(ctx);
    }

    pub(crate) fn ctx(&self) -> Option<crate::Ctx> {
        self.lock().ctx.as_ref()?.upgrade()
    }

    /// Marks the call as a task. The returned wakers must be woken.
    pub(crate) fn bind(&self, task_run: Arc<dyn TaskRunApi>) -> Vec<Waker> {
        let mut state = self.lock();
        state.stage = PromotionStage::Task(task_run);
        mem::take(&mut state.waiting)
    }

    /// Reports that the promotion failed.
    pub(crate) fn decline(&self, why: Error) {
        let mut state = self.lock();
        (state.stage, state.refused) = (PromotionStage::Plain, Some(why));
        let waiting = mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Ready when the handler has requested the promotion.
    pub(crate) fn poll_requested(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if matches!(state.stage, PromotionStage::Requested) {
            return Poll::Ready(());
        }
        let old = state.promoter.replace(cx.waker().clone());
        drop(state);
        drop(old);
        Poll::Pending
    }

    /// Requests the promotion, and waits until it is done.
    pub(crate) async fn detach(&self) -> Result<(), Error> {
        let mut asked = false;
        poll_fn(|cx| self.poll_detach(&mut asked, cx)).await
    }

    fn poll_detach(&self, asked: &mut bool, cx: &Context<'_>) -> Poll<Result<(), Error>> {
        let mut state = self.lock();
        match (&state.stage, *asked) {
            (PromotionStage::Task(_), _) => return Poll::Ready(Ok(())),
            (PromotionStage::Plain, true) => {
                let why = state.refused.clone();
                let why = why.unwrap_or_else(|| Error::new(ErrorKind::TemporarilyUnavailable));
                return Poll::Ready(Err(why));
            }
            _ => *asked = true,
        }
        state.stage = PromotionStage::Requested;
        if !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            state.waiting.push(cx.waker().clone());
        }
        let promoter = state.promoter.take();
        drop(state);
        promoter.into_iter().for_each(Waker::wake);
        Poll::Pending
    }

    fn lock(&self) -> MutexGuard<'_, PromotionState> {
        self.0.lock()
    }
}
