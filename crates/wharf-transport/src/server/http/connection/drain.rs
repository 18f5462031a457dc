//! Drains HTTP connections (graceful shutdown): calls in flight end within the grace period.

use std::{
    future::Future,
    pin::{Pin, pin},
    time::Duration,
};

use tokio::{
    task::JoinSet,
    time::{Instant, timeout, timeout_at},
};

use crate::server::http::{HttpService, service::HttpEndpoint};

/// Time for the last writes after the grace period.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Waits for the end of the connections, within the grace period, and closes the rest.
pub(super) async fn drain(endpoint: &HttpEndpoint, clients: &mut JoinSet<()>) {
    // Calls that are ended after the grace period still send their error.
    let deadline = Instant::now() + endpoint.context.http_limits.grace + CLOSE_TIMEOUT;
    let ended = async { while clients.join_next().await.is_some() {} };
    let _ = timeout_at(deadline, ended).await;
    clients.shutdown().await;
    // WebSocket connections close after that.
    endpoint.finish(deadline).await;
}

impl HttpEndpoint {
    /// Waits for everything that outlives its request, until `deadline`, and ends the sessions.
    async fn finish(&self, deadline: Instant) {
        self.tasks.finish(deadline).await;
        if let Some(sessions) = &self.sessions {
            sessions.end_all();
        }
    }
}

impl HttpService {
    /// Waits for the shutdown, and until everything that outlives its request has ended within the grace
    /// period: WebSockets and the calls of legacy sessions. For services mounted in an application; [`serve`](crate::server::http::serve)
    /// does this itself.
    pub async fn drained(&self) {
        let endpoint = &self.endpoint;
        endpoint.shutdown.stopped().await;
        let deadline = Instant::now() + endpoint.context.http_limits.grace + CLOSE_TIMEOUT;
        endpoint.finish(deadline).await;
    }
}

/// Polls a connection until its end, and returns its result. Shuts it down gracefully when the server stops or the connection is idle.
pub(super) async fn drive<C: Future<Output = hyper::Result<()>>, F: Future<Output = ()>>(
    endpoint: &HttpEndpoint,
    connection: C,
    shut_down: impl FnOnce(Pin<&mut C>),
    idle: impl Fn(Duration) -> F,
    drained: impl Future<Output = ()>,
) -> hyper::Result<()> {
    let mut connection = pin!(connection);
    tokio::select! {
        biased;
        ended = &mut connection => return ended,
        () = endpoint.shutdown.stopped() => {}
        () = idle(endpoint.context.http_limits.head) => {}
    }
    // Some clients read nothing more after GOAWAY.
    tokio::select! {
        ended = &mut connection => return ended,
        _ = timeout(CLOSE_TIMEOUT, drained) => {}
    }
    shut_down(connection.as_mut());
    tokio::select! {
        ended = &mut connection => ended,
        () = idle(CLOSE_TIMEOUT) => Ok(()),
    }
}
