//! HTTP+SSE of 2024-11-05.

use std::{sync::Arc, task::{Context, Poll}};

use bytes::Bytes;
use wharf_model::Scope;

use super::{HttpLimits, heads::Seen, respond::{self, Reply}, tasks::Tasks};
use crate::{Host, Shutdown};

/// The clients of 2024-11-05 that listen.
pub(crate) struct Sse2024;

impl Sse2024 {
    pub(crate) fn new(_: Arc<Host>, _: HttpLimits, _: Arc<Tasks>, _: Shutdown) -> Arc<Self> {
        Arc::new(Sse2024)
    }

    pub(crate) fn get(self: &Arc<Self>, _: &Seen<'_>, _: Scope) -> Reply {
        respond::status(501)
    }

    pub(crate) async fn post(&self, _query: Option<&str>, _: Bytes, _: Scope) -> Reply {
        respond::status(501)
    }
}

/// What one client of 2024-11-05 hears.
pub(crate) struct Feed;

impl Feed {
    pub(crate) fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Bytes>> {
        Poll::Ready(None)
    }
}
