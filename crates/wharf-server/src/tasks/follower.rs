//! A listener that begins to follow tasks on the way.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
};

use wharf_model::{LiveFilter, Outbox};

use crate::{core::Core, hub::Listening, tasks::calls};

/// A listener, and what it wants to hear.
pub(crate) struct Follower<'l> {
    pub(crate) core: &'l Arc<Core>,
    pub(crate) owner: String,
    pub(crate) filter: &'l LiveFilter,
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
            for id in followed {
                if !known.contains(&id) && Box::pin(self.is_settled(&id)).await {
                    known.insert(id);
                }
            }
        }
    }

    /// Whether all that happened to a task before it was followed is told. If the store does not
    /// say, the next edit looks again.
    async fn is_settled(&self, id: &str) -> bool {
        // What runs here is told when it ends, for by now it is followed.
        if self.core.tasks.is_running(id) {
            return true;
        }
        match self.core.tasks.ledger.load_of(id, &self.owner).await {
            Ok(Some(record)) => calls::tell_one(self.core, &record, self.listening),
            Ok(None) => drop(self.filter.edit(|filter| filter.tasks.remove(id))),
            Err(_) => return false,
        }
        true
    }
}
