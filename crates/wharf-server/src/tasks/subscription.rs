//! Subscription of one client to tasks, which it can extend at run time.

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

/// A subscription with its filter.
pub(crate) struct TaskSubscription<'l> {
    pub(crate) server: &'l Arc<ServerState>,
    pub(crate) request: &'l Request,
    pub(crate) filter: &'l LiveSubscriptionFilter,
    pub(crate) subscription: &'l ActiveSubscription,
}

impl TaskSubscription<'_> {
    /// Forwards notifications until the server shuts down. For tasks not in `known` it sends the
    /// current status when they are added: they may have ended before.
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
                // Boxed: most subscriptions never name a task.
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

    /// Sends the current status of a newly subscribed task; false if the store failed. Then the
    /// next edit of the filter tries again.
    async fn catch_up_task(&self, id: &str) -> bool {
        match self.server.tasks.task_runtime() {
            Some(task_runtime) => task_runtime.send_current_status(self, id).await,
            None => {
                self.filter.edit(|filter| filter.tasks.remove(id));
                true
            }
        }
    }

    /// Sends the current status of a task, with the task runtime.
    pub(super) async fn send_current_status(&self, id: &str) -> bool {
        // The end of a task that runs here will be published, and by now it is subscribed.
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

    /// Returns whether the current principal of the subscription may access the task.
    fn may_see(&self, record: &TaskRecord) -> bool {
        match self.filter.listener() {
            Some(listener) => notify::may_see(self.server, Some(&listener), record),
            None => methods::may_see(self.server, self.request, record).is_ok(),
        }
    }
}

/// Starts a subscription that names tasks, after a check of their owners.
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
            // The subscription of a session is not started again, and must deliver its other
            // notifications.
            Err(_) if request.since.is_some() => None,
            Err(error) => return error.into(),
        };
        if let Some(owned) = &owned {
            // Tasks added meanwhile stay: only the owner of a task is notified.
            let stays = |id: &String| owned.contains(id) || !named.contains(id);
            filter.edit(|filter| filter.tasks.retain(stays));
        }
        let subscription = router::listen::admit(
            &server,
            &server.catalog.load(),
            filter.clone(),
            &mut request,
            &outbox,
        );
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
