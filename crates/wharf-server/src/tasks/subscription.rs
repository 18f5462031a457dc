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
    notifications::Listening,
    router,
    router::state::Core,
    tasks::{methods, notify, storage::record::TaskRecord},
};

/// A listener, and what it wants to hear.
pub(crate) struct Follower<'l> {
    pub(crate) core: &'l Arc<Core>,
    pub(crate) request: &'l Request,
    pub(crate) filter: &'l LiveSubscriptionFilter,
    pub(crate) listening: &'l Listening,
}

impl Follower<'_> {
    /// Passes notifications on until the server shuts down. Of tasks that it does not know yet it
    /// hears when it begins to follow them: they may have ended before.
    pub(crate) async fn listen(&self, known: BTreeSet<String>, outbox: &Outbox) {
        let mut telling = pin!(self.listening.run(outbox));
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
                Box::pin(self.settle_all(followed, &mut known)).await;
            }
        }
    }

    async fn settle_all(&self, followed: BTreeSet<String>, known: &mut BTreeSet<String>) {
        for id in followed {
            if !known.contains(&id) && self.is_settled(&id).await {
                known.insert(id);
            }
        }
    }

    /// Whether all that happened to a task before it was followed is told. If the store does not
    /// say, the next edit looks again.
    async fn is_settled(&self, id: &str) -> bool {
        match self.core.tasks.machinery() {
            Some(machinery) => machinery.settle(self, id).await,
            None => {
                self.filter.edit(|filter| filter.tasks.remove(id));
                true
            }
        }
    }

    /// The same, where there are tasks.
    pub(super) async fn settle(&self, id: &str) -> bool {
        // What runs here is told when it ends, for by now it is followed.
        if self.core.tasks.engine().is_running(id) && !notify::depends_on_caller(self.core) {
            return true;
        }
        let principal = self.request.principal();
        match self.core.tasks.engine().ledger.load_of(id, principal).await {
            Ok(Some(record)) if self.may_see(&record) => {
                methods::tell_one(self.core, &record, self.listening);
            }
            Ok(_) => drop(self.filter.edit(|filter| filter.tasks.remove(id))),
            Err(_) => return false,
        }
        true
    }

    /// Whether whoever listens by now may see the task.
    fn may_see(&self, record: &TaskRecord) -> bool {
        match self.filter.listener() {
            Some(listener) => notify::may_see(self.core, Some(&listener), record),
            None => methods::may_see(self.core, self.request, record).is_ok(),
        }
    }
}

/// Takes in a listener that names tasks, after a look at whose they are.
pub(super) fn listen_to_tasks(
    core: Arc<Core>,
    filter: LiveSubscriptionFilter,
    mut request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    Box::pin(async move {
        let named = filter.read(|filter| filter.tasks.clone());
        let owned = match methods::owned(&core, &request, named.clone(), &outbox).await {
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
        let listening =
            router::admit(&core, &core.snapshot.load(), filter.clone(), &mut request, &outbox);
        match listening {
            Ok(listening) => {
                let owned = owned.unwrap_or_default();
                methods::tell_of(&core, &owned, &listening).await;
                let (request, filter, listening) = (&request, &filter, &listening);
                Follower { core: &core, request, filter, listening }.listen(owned, &outbox).await;
                Reply::Listened.into()
            }
            Err(error) => error.into(),
        }
    })
}
