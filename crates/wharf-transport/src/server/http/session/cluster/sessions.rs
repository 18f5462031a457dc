//! Sessions that several processes serve. Each process keeps those in memory that it served recently.

use std::{
    future::Future,
    ops::Deref,
    pin::Pin,
    sync::{Arc, Once},
    time::Duration,
};

use bytes::Bytes;
use wharf_model::{Caller, Error, Record, RefusalReason, RequestExtensions};
use wharf_wire::{Connection, HeaderField};

use crate::server::http::session::{
    cluster::{
        record::{EXPIRY_SLACK, SessionRecord, SessionStoreError},
        stored_stream_reader::StoredStreamReader,
    },
    idle_time::SessionGuard,
    initialize::{StoredSession, open},
    kinds::Sessions,
    live_session::{SESSION_STREAM, Session, SessionContext},
    owner,
    post::PostContext,
    refusals::{
        find_error_response, not_found, required_session_id, too_many_sessions, unknown_event,
    },
    stream_reader,
    stream_reader::StreamReader,
    table::{FindError, SessionManager, TableEntry},
};
use crate::server::{
    admission::overloaded,
    http::{
        HttpBody,
        cluster::{BusReceiver, Cluster, STORE_UNAVAILABLE, StoreUnavailable, digest, hex},
        request_checks::check_version,
        request_headers::RequestHeaders,
        response,
        response::{EventualResponse, HttpResponse},
        response_body::EventSource,
        response_form::ResponseForm,
        session::id::random_id,
    },
};

/// Time that the store keeps a new session before its first use.
const UNUSED_SESSION_TTL: Duration = Duration::from_secs(120);
type SessionResult<T> = Result<T, Box<HttpResponse>>;

/// Sessions of an endpoint that several processes serve.
pub(crate) struct SharedSessions {
    table: Arc<SessionManager<SharedSession>>,
    cluster: Arc<Cluster>,
    /// Completed when this process subscribes to the bus of the cluster.
    joined_cluster: Once,
}

/// One of them, with its record in the store.
#[derive(Clone)]
pub(crate) struct SharedSession {
    session: Arc<Session>,
    pub(crate) record: Arc<SessionRecord>,
}

/// Session in use, with its record in the store.
pub(crate) struct SharedGuard {
    pub(crate) guard: SessionGuard,
    pub(crate) record: Arc<SessionRecord>,
}

impl Deref for SharedSession {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl TableEntry for SharedSession {
    fn guard(&self) -> SessionGuard {
        SessionGuard::new(self.session.clone())
    }

    /// Extends the expiry of used sessions in the store, and removes those that have ended there.
    fn after_sweep(table: &Arc<SessionManager<Self>>) {
        let sessions = table.all_local();
        let Some(cluster) = sessions.first().map(|first| first.record.cluster.clone()) else {
            return;
        };
        let (table, idle) = (Arc::downgrade(table), table.common.limits.session_idle);
        cluster.spawn(async move {
            for session in sessions {
                let record = &session.record;
                if session.is_in_use() {
                    record.mark_used();
                }
                if record.touch(&session, idle).await == Err(SessionStoreError::Gone)
                    && let Some(table) = table.upgrade()
                {
                    table.remove_ended(&record.key);
                }
            }
        });
    }
}

impl Sessions for SharedSessions {
    fn post<'a>(
        &'a self,
        parsed: &'a RequestHeaders<'_>,
        message: Bytes,
        scope: RequestExtensions,
    ) -> EventualResponse<'a> {
        if parsed.session == HeaderField::Absent {
            return EventualResponse::later(open(self, &self.table.common, parsed, message, scope));
        }
        EventualResponse::later(async move {
            self.handle(parsed, message, scope).await.unwrap_or_else(|refusal| *refusal)
        })
    }

    fn get<'a>(
        &'a self,
        parsed: &'a RequestHeaders<'_>,
        scope: RequestExtensions,
    ) -> EventualResponse<'a> {
        EventualResponse::later(async move {
            self.stream(parsed, scope).await.unwrap_or_else(|refusal| *refusal)
        })
    }

    fn end_all(&self) {
        self.table.end_all();
    }

    fn delete<'a>(
        &'a self,
        parsed: &'a RequestHeaders<'_>,
        scope: RequestExtensions,
    ) -> EventualResponse<'a> {
        EventualResponse::later(async move {
            self.end(parsed, &scope).await.unwrap_or_else(|refusal| *refusal)
        })
    }

    fn store(
        &self,
        connection: Connection,
        opener: Caller,
    ) -> Pin<Box<dyn Future<Output = Result<StoredSession, Error>> + Send + '_>> {
        Box::pin(self.insert(connection, opener))
    }
}

impl SharedSessions {
    pub(crate) fn new(common: Arc<SessionContext>, cluster: Arc<Cluster>) -> Self {
        SharedSessions { table: SessionManager::new(common), cluster, joined_cluster: Once::new() }
    }

    /// Stores a session that was opened here, so that every process finds it, and gives it an id.
    async fn insert(&self, connection: Connection, opener: Caller) -> Result<StoredSession, Error> {
        self.join_cluster();
        let (cluster, limits) = (&self.cluster, &self.table.common.limits);
        let name = random_id().ok_or_else(overloaded)?;
        let id = digest(name.as_bytes());
        let sessions = &cluster.stores.sessions;
        let now = cluster.store_call(sessions.now()).await.map_err(StoreUnavailable::error)?;
        let ttl = limits.session_idle.min(UNUSED_SESSION_TTL) + EXPIRY_SLACK;
        let expires = now + ttl.as_millis() as u64;
        let record = Record::new(hex(&id))
            .owner(owner::stored(&opener))
            .created(now)
            .expires(expires)
            .body(connection.save().ok_or_else(overloaded)?);
        let most = owner::max_sessions(&opener, limits);
        let inserted = cluster.store_call(sessions.insert(record.clone(), most)).await;
        if !inserted.map_err(StoreUnavailable::error)? {
            return Err(too_many_sessions());
        }
        let session = self.restore(record.version(1), opener);
        let shared = session.and_then(|session| self.table.admit(id, &session));
        let SharedSession { session, .. } = shared.ok_or_else(too_many_sessions)?;
        Ok(StoredSession { session, id: name })
    }

    /// Creates a session from its record in the store.
    fn restore(&self, record: Record, opener: Caller) -> Option<SharedSession> {
        let common = &self.table.common;
        let connection =
            Connection::restored(common.context.wire.clone(), &record.body, &record.id)?;
        let record = SessionRecord::new(self.cluster.clone(), record);
        let kind = Box::new(record.clone());
        let session = Session::new(common.clone(), connection, opener, kind);
        Some(SharedSession { session, record })
    }

    /// Finds the session of a request for its owner.
    async fn find(
        &self,
        parsed: &RequestHeaders<'_>,
        scope: &RequestExtensions,
    ) -> SessionResult<SharedGuard> {
        let name = required_session_id(parsed)?;
        if name.len() != 32 {
            return Err(Box::new(not_found()));
        }
        let id = digest(name);
        let shared = match self.table.find_local(&id) {
            Some((_, guard, _)) if !guard.belongs_to(scope) => return Err(Box::new(not_found())),
            Some((SharedSession { record, .. }, guard, idle)) => {
                if idle {
                    record.mark_stale();
                }
                SharedGuard { guard, record }
            }
            None => self.load(id, scope).await.map_err(error_response)?,
        };
        if !shared.guard.is_established() {
            // Also if it was evicted here just now: the store has it still.
            let full = |_| find_error_response(FindError::TableFull);
            self.table.establish(&id, &shared.guard).map_err(full)?;
        }
        Ok(shared)
    }

    /// Loads a session from the store.
    async fn load(
        &self,
        id: [u8; 32],
        scope: &RequestExtensions,
    ) -> Result<SharedGuard, SessionStoreError> {
        self.join_cluster();
        let cluster = &self.cluster;
        let record = cluster.store_call(cluster.stores.sessions.load(&hex(&id))).await?;
        let is_theirs = |record: &Record| owner::owns_stored(scope, &record.owner);
        let record = record.filter(is_theirs).ok_or(SessionStoreError::Gone)?;
        let session = self.restore(record, Caller::of(scope)).ok_or(SessionStoreError::Gone)?;
        // This request ends its handshake, if another process has not.
        session.set_established();
        let shared = self.table.admit(id, &session).ok_or(SessionStoreError::Contended)?;
        let guard = shared.guard();
        match (guard.belongs_to(scope), guard.is_ended()) {
            (true, false) => Ok(SharedGuard { guard, record: shared.record }),
            // The session was evicted at once.
            (true, true) => Err(SessionStoreError::Contended),
            (false, _) => Err(SessionStoreError::Gone),
        }
    }

    /// Returns the response for a session that cannot be used. Removes one that another process has ended.
    fn refuse(&self, record: &SessionRecord, error: SessionStoreError) -> Box<HttpResponse> {
        if error == SessionStoreError::Gone {
            self.table.remove_ended(&record.key);
        }
        error_response(error)
    }

    /// Handles a message posted to a session.
    async fn handle(
        &self,
        parsed: &RequestHeaders<'_>,
        message: Bytes,
        scope: RequestExtensions,
    ) -> SessionResult<HttpResponse> {
        let SharedGuard { guard, record } = self.find(parsed, &scope).await?;
        let (form, length) = (ResponseForm::in_session(parsed.accept), message.len());
        let received = record.receive(&guard, &scope, message, &parsed.message).await;
        let received = received.map_err(|error| self.refuse(&record, error))?;
        Ok(PostContext { guard, scope, form, length }.handle(received).ready().await)
    }

    /// Opens the session's stream, or resumes one of its streams, from memory or from the store.
    async fn stream(
        &self,
        parsed: &RequestHeaders<'_>,
        scope: RequestExtensions,
    ) -> SessionResult<HttpResponse> {
        check_version(parsed, &self.table.common.context.wire)?;
        let shared = self.find(parsed, &scope).await?;
        let SharedGuard { guard, record } = &shared;
        let refuse = |error| self.refuse(record, error);
        if parsed.last_event == HeaderField::Absent {
            // Subscriptions that another process stored just now apply to the session's stream.
            record.refresh(guard).await.map_err(refuse)?;
        }
        record.prepare(guard, &scope).await.map_err(refuse)?;
        let (stream, after) = match parsed.last_event {
            HeaderField::Absent => (SESSION_STREAM, None),
            last => {
                let named = last.one().and_then(stream_reader::parse);
                let (stream, event) = named.ok_or_else(|| Box::new(unknown_event()))?;
                (stream, Some(event))
            }
        };
        if let Some(after) = after.filter(|_| stream != SESSION_STREAM)
            && let Some(stream_reader) = StreamReader::resume(guard.clone(), stream, after)
        {
            let reader = record.register_reader(stream, true).await;
            let reader = reader.map_err(|unavailable| error_response(unavailable.into()))?;
            return Ok(stream_reader.with_registration(reader).into_events());
        }
        let stored = StoredStreamReader::open(shared, stream, after, scope).await;
        match stored.map_err(|unavailable| error_response(unavailable.into()))? {
            Some(stored) => {
                let every = stored.keep_alive();
                Ok(response::events(HttpBody::events(EventSource::Stored(stored), every)))
            }
            None => Ok(unknown_event()),
        }
    }

    /// Ends a session in every process.
    async fn end(
        &self,
        parsed: &RequestHeaders<'_>,
        scope: &RequestExtensions,
    ) -> SessionResult<HttpResponse> {
        check_version(parsed, &self.table.common.context.wire)?;
        let SharedGuard { record, .. } = self.find(parsed, scope).await?;
        let removed =
            record.remove().await.map_err(|unavailable| error_response(unavailable.into()))?;
        self.table.remove_ended(&record.key);
        Ok(if removed { response::status(204) } else { not_found() })
    }

    /// Subscribes to the cluster's bus and mailbox, once.
    fn join_cluster(&self) {
        self.joined_cluster.call_once(|| {
            let cluster = &self.cluster;
            cluster.start();
            // Before any session is loaded, so that no change of one is missed.
            let receiver = BusReceiver::new(&*cluster.stores.bus);
            let table = Arc::downgrade(&self.table);
            cluster.spawn_background(SessionManager::receive_bus(
                table.clone(),
                cluster.clone(),
                receiver,
            ));
            cluster.spawn_background(SessionManager::read_mail(table, cluster.clone()));
        });
    }
}

/// Returns the response for a session that cannot be used.
fn error_response(error: SessionStoreError) -> Box<HttpResponse> {
    Box::new(match error {
        SessionStoreError::StoreUnavailable => {
            response::busy(RefusalReason::StoreUnavailable, STORE_UNAVAILABLE)
        }
        SessionStoreError::Gone => not_found(),
        SessionStoreError::Contended => {
            let problem = "The session is being changed by too many requests: try again later";
            response::busy(RefusalReason::TooManyCalls, problem)
        }
    })
}
