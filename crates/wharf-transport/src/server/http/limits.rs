//! Limits and timeouts of the HTTP server.

use std::time::Duration;

use wharf_model::setters;

/// Limits of an HTTP endpoint.
///
/// ```
/// # mod wharf { pub use wharf_transport::server::http::*; pub mod http { pub use super::*; } }
/// use wharf::http::HttpLimits;
///
/// let limits = HttpLimits::default().sessions(100).connections(1_000);
/// assert_eq!(limits.streams, 256);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpLimits {
    /// Largest number of open connections. For one more, the longest idle connection of the caller with most
    /// connections is closed. If all are in use, the new one is refused.
    pub connections: usize,
    /// Largest number of concurrent requests on one HTTP/2 connection.
    pub streams: usize,
    /// Largest size of the headers of a request, in bytes.
    pub headers: usize,
    /// Timeout for the first byte, for the headers of each request, and of an idle connection.
    pub head: Duration,
    /// Timeout for the body of a request, in addition to the time it needs at 64 KiB a second.
    pub body: Duration,
    /// Memory of all bodies that are being read or answered, in bytes. A body of more than 64 KiB counts three
    /// times: for itself, for the arguments decoded from it, and for the reply. It waits for memory for the
    /// time of `body`, and one caller never gets all of it. Smaller bodies count for their caller too while
    /// more than half is in use. Messages on WebSockets and HTTP+SSE are included.
    pub bodies: usize,
    /// Timeout for a client that does not read.
    pub write: Duration,
    /// Interval of keep-alives on a silent stream.
    pub keep_alive: Duration,
    /// Largest number of legacy sessions. For one more, the longest idle session of the caller with most
    /// sessions ends. If all are in use, the new one is refused. Sessions count from the first request with
    /// their id. Until then they are in the handshake, for which there is room beside them: for an eighth of
    /// this number, at least eight. For one handshake more, the oldest of the caller with most handshakes ends.
    /// In a cluster: the largest number per principal in all processes, and the largest number in the memory
    /// of one process.
    pub sessions: usize,
    /// Memory for the client info and capabilities of all legacy sessions, in bytes. Each session counts at
    /// least as its share, so that there are never more than `sessions`.
    pub session_bytes: usize,
    /// Largest number of legacy sessions of unauthenticated callers in a cluster, in all processes. Their
    /// addresses form 16 groups, and each group may have a sixteenth of it, so one address cannot use up the
    /// sessions of all. Set [`Http::trusted_proxies`](crate::server::http::Http::trusted_proxies) behind a balancer, or else all clients have its address.
    /// Callers without an address, such as those of an application that does not pass it on, are one group that
    /// may have all.
    pub anonymous_sessions: usize,
    /// Time after which an idle legacy session expires.
    pub session_idle: Duration,
    /// Largest number of calls in flight in one legacy session.
    pub session_calls: usize,
    /// Number of events that one stream of a legacy session keeps for replay.
    pub replay_events: usize,
    /// Bytes that one stream of a legacy session keeps for replay.
    pub replay_bytes: usize,
    /// Time that an ended stream of a legacy session is kept for replay. It is discarded up to a minute later.
    pub replay_time: Duration,
    /// Bytes that all legacy sessions keep for replay, including events that are not read yet. When they are used
    /// up, streams that have ended are discarded, the oldest of the caller whose ended streams take the most. An
    /// eighth is for ended streams alone. Of the rest, the open streams of one caller may take as much as is still
    /// free: half of it if it is alone. Beyond that, its calls wait for their clients to read each event
    /// (back-pressure).
    pub replay_total: usize,
    /// Delay that clients are asked to wait before they resume a stream (`retry` of server-sent events).
    pub retry: Duration,
    /// Grace period of calls in flight on shutdown.
    pub grace: Duration,
}

impl HttpLimits {
    /// Returns the smallest size that a session counts as, in bytes.
    pub(crate) fn session_unit(&self) -> usize {
        (self.session_bytes / self.sessions.max(1)).max(1)
    }
}

impl Default for HttpLimits {
    fn default() -> Self {
        HttpLimits {
            connections: 16_384,
            streams: 256,
            headers: 64 << 10,
            head: Duration::from_secs(10),
            body: Duration::from_secs(10),
            bodies: 256 << 20,
            write: Duration::from_secs(10),
            keep_alive: Duration::from_secs(15),
            sessions: 10_000,
            session_bytes: 64 << 20,
            anonymous_sessions: 100_000,
            session_idle: Duration::from_secs(30 * 60),
            session_calls: 1024,
            replay_events: 1_000,
            replay_bytes: 1 << 20,
            replay_time: Duration::from_secs(5 * 60),
            replay_total: 256 << 20,
            retry: Duration::from_secs(1),
            grace: Duration::from_secs(5),
        }
    }
}

setters!(HttpLimits {
    connections: usize,
    streams: usize,
    headers: usize,
    head: Duration,
    body: Duration,
    bodies: usize,
    write: Duration,
    keep_alive: Duration,
    sessions: usize,
    session_bytes: usize,
    anonymous_sessions: usize,
    session_idle: Duration,
    session_calls: usize,
    replay_events: usize,
    replay_bytes: usize,
    replay_time: Duration,
    replay_total: usize,
    retry: Duration,
    grace: Duration,
});
