//! Serves an HTTP/1.1 connection, and keeps its state: waiting for a request, or responding to one. Its timeouts depend
//! on the state.

use std::{
    future::{pending, ready},
    sync::{
        Arc, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::Instant,
};
use wharf_model::{Lock, NetworkProtocolVersion, RequestExtensions};

use crate::server::http::{
    HttpLimits,
    connection::{
        RequestOrigin,
        drain::drive,
        handle_request,
        head_and_write_timeouts::{IoTimeouts, TimedIo},
        report_end,
    },
    service::HttpEndpoint,
};
use crate::server::{
    limits::connection_slots::{ConnectionActivity, SlotGuard},
    observed::{ObservedPeer, client_of},
};

/// State of one connection. It starts by waiting for a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Http1State(Arc<Http1Shared>);

#[derive(Debug, Default)]
struct Http1Shared {
    phase: Lock<Http1Phase>,
    /// True once the request line has been read.
    past_line: AtomicBool,
    /// True if the target in that line has a fragment.
    fragment: AtomicBool,
}

#[derive(Debug)]
enum Http1Phase {
    Responding,
    /// Waiting for a request since this time, if it was recorded.
    Waiting(Option<Instant>),
}

impl Default for Http1Phase {
    fn default() -> Self {
        Http1Phase::Waiting(None)
    }
}

impl Http1State {
    /// Enters the responding state until the guard is dropped.
    pub(crate) fn begin_response(&self) -> ResponseGuard {
        *self.lock() = Http1Phase::Responding;
        ResponseGuard(Some(self.clone()))
    }

    /// Returns the time since when the connection waits for a request; `now` if it was not recorded. None while
    /// responding.
    pub(crate) fn waiting_since(&self, now: Instant) -> Option<Instant> {
        match &mut *self.lock() {
            Http1Phase::Responding => None,
            Http1Phase::Waiting(since) => Some(*since.get_or_insert(now)),
        }
    }

    /// Records a write: the wait for the next request starts after it.
    pub(crate) fn on_written(&self) {
        if let Http1Phase::Waiting(since) = &mut *self.lock() {
            *since = Some(Instant::now());
        }
    }

    /// Returns true if the next input belongs to a request line.
    pub(crate) fn expects_request_line(&self) -> bool {
        !self.0.past_line.load(Ordering::Relaxed)
    }

    /// Records the end of a request line, and whether its target has a fragment.
    pub(crate) fn end_line(&self, fragment: bool) {
        self.0.past_line.store(true, Ordering::Relaxed);
        if fragment {
            self.0.fragment.store(true, Ordering::Relaxed);
        }
    }

    /// Returns true if the target of the request has a fragment, which the parser drops. Pipelined requests are
    /// parsed from hyper's buffer and not seen here.
    pub(crate) fn has_fragment(&self) -> bool {
        self.0.fragment.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Http1Phase> {
        self.0.phase.lock()
    }
}

/// Responding state, until it is dropped.
#[derive(Debug)]
pub(crate) struct ResponseGuard(Option<Http1State>);

impl ResponseGuard {
    /// Never returns to waiting, because the connection no longer carries HTTP requests.
    pub(crate) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for ResponseGuard {
    fn drop(&mut self) {
        if let Some(state) = &self.0 {
            state.0.past_line.store(false, Ordering::Relaxed);
            *state.lock() = Http1Phase::Waiting(None);
        }
    }
}

/// Serves the requests of an HTTP/1.1 connection.
pub(super) async fn serve_http1<S>(
    endpoint: &Arc<HttpEndpoint>,
    stream: S,
    prefix: Bytes,
    mut scope: RequestExtensions,
    slot_guard: SlotGuard,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let limits = endpoint.context.http_limits;
    let (slot, state) = (slot_guard.slot().clone(), Http1State::default());
    slot.set_activity(ConnectionActivity::Http1(state.clone()));
    scope.insert(slot.clone());
    scope.insert(NetworkProtocolVersion("1.1"));
    let observed = ObservedPeer::new(&endpoint.context, &scope);
    let peer = client_of(&scope);
    let scope = scope.shared();
    let timeouts = IoTimeouts { head: Some((limits.head, state.clone())), write: limits.write };
    let io = TokioIo::new(TimedIo::new(stream, prefix, timeouts, slot_guard));
    let handle_request = service_fn(|request| {
        let well_formed = !state.has_fragment();
        handle_request(
            endpoint.clone(),
            request,
            scope.clone(),
            state.begin_response(),
            RequestOrigin { peer, well_formed },
        )
    });
    let connection = http1_builder(&limits).serve_connection(io, handle_request).with_upgrades();
    let ended =
        drive(endpoint, connection, |it| it.graceful_shutdown(), |_| pending(), ready(())).await;
    report_end(&observed, &slot, ended);
}

fn http1_builder(limits: &HttpLimits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        // `TimedIo` applies this timeout.
        .header_read_timeout(None)
        .max_header_size(limits.headers)
        .max_buf_size(limits.headers.max(8 << 10));
    builder
}
