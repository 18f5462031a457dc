//! The two kinds of session, in this process and shared by several: what an endpoint does with each HTTP method, and
//! what differs in the middle of a session.

use std::{future::Future, pin::Pin, sync::Arc};

use bytes::Bytes;
use wharf_model::{Caller, Error, RequestExtensions};
use wharf_wire::Connection;

use crate::server::http::{
    request_headers::RequestHeaders,
    response::{EventualResponse, HttpResponse},
    session::{
        cluster::event_writer::EventWriter, idle_time::SessionGuard, initialize::StoredSession,
        live_session::Session,
    },
};

/// Legacy sessions of one endpoint: `LocalSessions`, or `SharedSessions` where several processes serve them. Which one
/// is decided when the endpoint is built.
pub(crate) trait Sessions: Send + Sync {
    /// Handles a POST without the headers of a modern revision.
    fn post<'a>(
        &'a self,
        parsed: &'a RequestHeaders<'_>,
        message: Bytes,
        scope: RequestExtensions,
    ) -> EventualResponse<'a>;

    /// Handles GET: opens the session's stream, or resumes one of its streams.
    fn get<'a>(
        &'a self,
        parsed: &'a RequestHeaders<'_>,
        scope: RequestExtensions,
    ) -> EventualResponse<'a>;

    /// Handles DELETE: ends a session.
    fn delete<'a>(
        &'a self,
        parsed: &'a RequestHeaders<'_>,
        scope: RequestExtensions,
    ) -> EventualResponse<'a>;

    /// Ends all sessions of this process, when the server has drained.
    fn end_all(&self);

    /// Creates a session for a client that has sent `initialize`, and stores it under a new id.
    fn store(
        &self,
        connection: Connection,
        opener: Caller,
    ) -> Pin<Box<dyn Future<Output = Result<StoredSession, Error>> + Send + '_>>;
}

/// Differences between the kinds of session: one in the memory of this process (`LocalSession`), and one that several
/// processes share through a store (`Arc<SessionRecord>`).
pub(crate) trait SessionKind: Send + Sync {
    /// First number of the client requests that this process sends.
    fn first_request_number(&self) -> u64;

    /// Returns the number of a new call stream, unique in the session, whose `newest`th one in this process it is.
    fn stream_number(&self, newest: u64) -> u64;

    /// Returns the writer that stores the events of a call stream, if they are stored.
    fn event_writer(&self, session: &Arc<Session>, number: u64) -> Option<EventWriter>;

    /// Starts the session's subscription to changes if it is due. Fails if it may be retried later.
    fn start_listen(
        &self,
        session: &Arc<Session>,
        scope: &RequestExtensions,
        has_session_stream: bool,
    ) -> Result<(), Box<Error>>;

    /// Returns a stream of one reply, for a client that accepts only events.
    fn one_event(&self, guard: &SessionGuard, reply: Vec<u8>) -> HttpResponse;

    /// Saves the session's subscriptions, in the background.
    fn save(&self, session: &Arc<Session>);

    /// Called when the session has ended.
    fn on_end(&self);
}
