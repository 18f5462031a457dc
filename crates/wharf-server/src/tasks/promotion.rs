//! Promotion of a running call to a task, after a threshold or when its handler detaches.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use wharf_model::{
    ActiveCall, BoxFuture, Caller, ClientRequestId, Deadlines, Error, Event, Outbox, Outcome,
    Request, ResponseFuture, Task, TaskChange, Timer, ToolInfo,
};

use crate::{
    router::{catalog::CatalogEntry, state::ServerState},
    tasks::{
        create::{ByteReservation, insert_claimed, new_record},
        promotion_state::TaskPromotion,
        run,
        run::{RunResources, ToolCall},
        storage::{owner::owner_of, record::TaskRecord, stored_types::SavedCall},
        task_view,
    },
};

/// Minimum delay before another attempt to promote a call to a task.
const PROMOTION_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Runs a call that may be promoted to a task.
pub(crate) fn promotable(
    server: &Arc<ServerState>,
    tool: &Arc<CatalogEntry<ToolInfo>>,
    mut request: Request,
    outbox: Outbox,
    after: Option<Duration>,
) -> BoxFuture<Outcome> {
    // A later run is in the trace of this call.
    request.continue_trace();
    // Saved now for the record, while the request still exists.
    let saved = SavedCall::from_request(&request, server.tasks.options.arguments);
    // A call too large to be stored is never promoted.
    let after = after.filter(|_| saved.is_ok());
    let caller = Caller::of(&request.scope);
    let (promotion, timer) = (TaskPromotion::default(), outbox.timer().clone());
    request.scope.insert(promotion.clone());
    let owner = owner_of(&request);
    // The call that may become a task is observed around this one.
    let call = ToolCall { server, tool };
    let (exchange, inner) = call.start(request, timer.clone(), outbox.deadlines());
    // The deadlines of the inner call apply.
    outbox.set_deadlines(Deadlines::NONE);
    let promotable = PromotableCall {
        server: server.clone(),
        tool: tool.clone(),
        owner,
        caller,
        saved,
        promotion,
        inner,
        outbox,
        timer,
        after,
        alarm: None,
        forwarded: Vec::new(),
    };
    Box::pin(promotable.run(exchange))
}

struct PromotableCall {
    server: Arc<ServerState>,
    tool: Arc<CatalogEntry<ToolInfo>>,
    owner: String,
    caller: Caller,
    saved: Result<SavedCall, Error>,
    promotion: TaskPromotion,
    /// Outbox of the inner call, and the outbox to the caller.
    inner: Outbox,
    outbox: Outbox,
    timer: Arc<dyn Timer>,
    after: Option<Duration>,
    alarm: Option<BoxFuture<()>>,
    forwarded: Vec<(ClientRequestId, ResponseFuture)>,
}

#[derive(Debug)]
enum PromotionEvent {
    Event(Event),
    /// The call has exceeded its threshold.
    Long,
    /// The handler requested to be detached.
    Detach,
}

impl PromotableCall {
    async fn run(mut self, mut exchange: ActiveCall) -> Outcome {
        loop {
            match poll_fn(|cx| self.poll(&mut exchange, cx)).await {
                PromotionEvent::Event(Event::Done(outcome)) => return outcome,
                PromotionEvent::Event(event) => self.pass_on(event).await,
                reason => match self.promote().await {
                    Ok((task, record, resources)) => {
                        // Its client requests can be answered for as long as the task is kept.
                        exchange.extend(task.ttl.map_or(Duration::MAX, Duration::from_millis));
                        // If no thread can be started here, its lease expires and it is claimed
                        // again.
                        run::continue_call(resources, (&self.tool, &record), exchange, self.timer);
                        return Outcome::Task(Box::new(task));
                    }
                    Err(error) => {
                        tracing::debug!(%error, ?reason, "cannot promote a call to a task");
                        self.promotion.decline(error);
                        self.after = self.after.map(|after| after.max(PROMOTION_RETRY_DELAY));
                    }
                },
            }
        }
    }

    fn poll(&mut self, exchange: &mut ActiveCall, cx: &mut Context<'_>) -> Poll<PromotionEvent> {
        let answers = exchange.response_sender();
        self.forwarded.retain_mut(|(id, answering)| match Pin::new(answering).poll(cx) {
            Poll::Ready(answer) => {
                answers.deliver(*id, answer);
                false
            }
            Poll::Pending => true,
        });
        if let Poll::Ready(event) = exchange.poll_event(cx) {
            return Poll::Ready(PromotionEvent::Event(event));
        }
        // A client request is pending at the caller, which responds to this call.
        if !self.forwarded.is_empty() {
            return Poll::Pending;
        }
        if self.promotion.poll_requested(cx).is_ready() {
            return Poll::Ready(PromotionEvent::Detach);
        }
        let Some(after) = self.after else { return Poll::Pending };
        let timer = &self.timer;
        let alarm = self.alarm.get_or_insert_with(|| timer.sleep_until(timer.now() + after));
        if alarm.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.alarm = None;
        Poll::Ready(PromotionEvent::Long)
    }

    async fn pass_on(&mut self, event: Event) {
        match event {
            Event::Notify(notification) => {
                self.outbox.notify(notification);
                self.outbox.wait_for_capacity().await;
            }
            Event::ClientRequest(id, ask) => self.forwarded.push((id, self.outbox.ask(ask))),
            Event::Withdraw(id) => self.forwarded.retain(|(asked, _)| *asked != id),
            Event::ConnectionMayClose => self.outbox.release_connection(),
            Event::Done(_) => {}
        }
    }

    /// Promotes the running call to a task. Its handler is not polled meanwhile, though a thread of
    /// its own may continue.
    async fn promote(&mut self) -> Result<(Task, TaskRecord, RunResources), Error> {
        let scheduler = self.server.tasks.scheduler();
        let slot = scheduler
            .acquire_slot(&self.owner)
            .ok_or_else(|| Error::overloaded(Duration::from_secs(1)))?;
        scheduler.start(&self.server, &self.timer);
        let ctx = self.promotion.ctx();
        let since = self.timer.now();
        let ttl = scheduler.ttl(&self.caller, None);
        let mut record =
            new_record(&self.server, self.owner.clone(), self.saved.clone()?, ttl).await?;
        let reservation = ByteReservation::new(scheduler, &self.caller, &record, (since, ttl))?;
        if let Some(ctx) = &ctx {
            ctx.run().export_to(&mut record);
        }
        let (resources, unclaimed) =
            insert_claimed(&self.server, (&mut record, since), slot, &self.timer).await?;
        reservation.commit();
        // From here on, steps and client requests are stored.
        let waiting = self.promotion.bind(resources.task_run.clone());
        let missed = ctx.map(|ctx| ctx.bind(&record.steps)).unwrap_or_default();
        for (name, json) in missed {
            resources.task_run.save_step(&name, &json).await;
        }
        waiting.into_iter().for_each(Waker::wake);
        if self.tool.deadlines.is_none() {
            self.inner.set_deadlines(run::task_deadlines(scheduler.options.task_ttl(None)));
        }
        scheduler.task_store.report_change(&record, TaskChange::Created);
        unclaimed.disarm();
        Ok((task_view::task(&self.server, &record), record, resources))
    }
}
