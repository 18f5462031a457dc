//! A listener that begins to follow tasks on the way.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
};

use wharf_model::{BoxFuture, LiveSubscriptionFilter, Outbox, Outcome, Reply, Request};

use crate::{
    notifications::ActiveSubscription,
    router,
    router::state::ServerState,
    tasks::{methods, notify, storage::record::TaskRecord},
};

/// A listener, and what it wants to hear.
pub(crate) struct TaskSubscription<'l> {
    pub(crate) server: &'l Arc<ServerState>,
    pub(crate) request: &'l Request,
    pub(crate) filter: &'l LiveSubscriptionFilter,
    pub(crate) subscription: &'l ActiveSubscription,
}

impl TaskSubscription<'_> {
    /// Passes notifications on until the server shuts down. Of tasks that it does not know yet it
    /// hears when it begins to follow them: they may have ended before.
    pub(crate) async fn listen(&self, known: BTreeSet<String>, outbox: &Outbox) {
        let mut telling = pin!(self.subscription.run(outbox));
        let mut catching_up = pin!(self.catch_up(known));
        poll_fn(|cx| {
            let _ = catching_up.as_mut().poll(cx);
            telling.as_mut().poll(cx)
        })
        .await;
    }

    async fn catch_up(&self, mut known: BTreeSet<String>) -> Infallible {
        let mut edits = 0;
        loop {
            edits = self.filter.edited(edits).await;
            let followed = self.filter.read(|filter| filter.tasks.clone());
            known.retain(|id| followed.contains(id));
            if !followed.is_empty() {
                // Boxed: most listeners never follow a task.
                Box::pin(self.catch_up_all(followed, &mut known)).await;
            }
        }
    }

    async fn catch_up_all(&self, followed: BTreeSet<String>, known: &mut BTreeSet<String>) {
        for id in followed {
            if !known.contains(&id) && self.catch_up_task(&id).await {
                known.insert(id);
            }
        }
    }

    /// Whether all that happened to a task before it was followed is told. If the store does not
    /// say, the next edit looks again.
    async fn catch_up_task(&self, id: &str) -> bool {
        match self.server.tasks.task_runtime() {
            Some(task_runtime) => task_runtime.send_current_status(self, id).await,
            None => {
                self.filter.edit(|filter| filter.tasks.remove(id));
                true
            }
        }
    }

    /// The same, where there are tasks.
    pub(super) async fn send_current_status(&self, id: &str) -> bool {
        // What runs here is told when it ends, for by now it is followed.
        if self.server.tasks.scheduler().is_running(id) && !notify::depends_on_caller(self.server) {
            return true;
        }
        let principal = self.request.principal();
        match self.server.tasks.scheduler().task_store.load_owned(id, principal).await {
            Ok(Some(record)) if self.may_see(&record) => {
                methods::send_status(self.server, &record, self.subscription);
            }
            Ok(_) => drop(self.filter.edit(|filter| filter.tasks.remove(id))),
            Err(_) => return false,
        }
        true
    }

    /// Whether whoever listens by now may see the task.
    fn may_see(&self, record: &TaskRecord) -> bool {
        match self.filter.listener() {
            Some(listener) => notify::may_see(self.server, Some(&listener), record),
            None => methods::may_see(self.server, self.request, record).is_ok(),
        }
    }
}

/// Takes in a listener that names tasks, after a look at whose they are.
pub(super) fn listen_to_tasks(
    server: Arc<ServerState>,
    filter: LiveSubscriptionFilter,
    mut request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    Box::pin(async move {
        let named = filter.read(|filter| filter.tasks.clone());
        let owned = match methods::owned(&server, &request, named.clone(), &outbox).await {
            Ok(owned) => Some(owned),
            // A session's would not begin again, and wants to hear the rest.
            Err(_) if request.since.is_some() => None,
            Err(error) => return error.into(),
        };
        if let Some(owned) = &owned {
            // What was added meanwhile stays: nobody hears of a task but its owner.
            let stays = |id: &String| owned.contains(id) || !named.contains(id);
            filter.edit(|filter| filter.tasks.retain(stays));
        }
        let subscription =
            router::admit(&server, &server.catalog.load(), filter.clone(), &mut request, &outbox);
        match subscription {
            Ok(subscription) => {
                let owned = owned.unwrap_or_default();
                methods::send_statuses(&server, &owned, &subscription).await;
                let (request, filter, subscription) = (&request, &filter, &subscription);
                TaskSubscription { server: &server, request, filter, subscription }
                    .listen(owned, &outbox)
                    .await;
                Reply::Listened.into()
            }
            Err(error) => error.into(),
        }
    })
}
