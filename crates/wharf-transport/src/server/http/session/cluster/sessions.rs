//! Sessions that several processes serve. Each process keeps those in memory that it served recently.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use wharf_model::{Caller, Error, Record, RequestExtensions};
use wharf_wire::{Connection, HeaderField};

use crate::server::http::session::{
    SessionManager,
    cluster::{
        record::{EXPIRY_SLACK, SessionRecord, SessionStoreError},
        stored_stream_reader::StoredStreamReader,
    },
    find_error_response, live_session,
    live_session::{SESSION_STREAM, Session, SessionGuard},
    post,
    post::PostContext,
    session_name, stream_reader,
    stream_reader::StreamReader,
    table::FindError,
    too_many_sessions, unknown_event,
};
use crate::server::{
    http::{
        HttpBody,
        cluster::{BusReceiver, Cluster, STORE_UNAVAILABLE, StoreUnavailable, digest, hex},
        request_checks::check_version,
        request_headers::RequestHeaders,
        response,
        response::{EventualResponse, HttpResponse},
        response_body::EventSource,
        session::id::random_id,
    },
    jsonl::in_flight::overloaded,
};

/// Time that the store keeps a new session before its first use.
const UNUSED_SESSION_TTL: Duration = Duration::from_secs(120);
/// Number of owners that unauthenticated callers are counted as, by their addresses. Each may have this fraction of
/// `HttpLimits::anonymous_sessions`.
const ADDRESS_GROUPS: u16 = 16;
/// First character of an owner that is a group of addresses. No digest of a principal contains it.
const GROUP_MARK: char = '~';

type SessionResult<T> = Result<T, Box<HttpResponse>>;

impl SessionManager {
    /// Stores a session that was opened here, so that every process finds it, and gives it an id.
    pub(crate) async fn open_shared(
        self: &Arc<Self>,
        cluster: &Arc<Cluster>,
        connection: &Connection,
        opener: Caller,
    ) -> Result<(Arc<Session>, String), Error> {
        self.join_cluster(cluster);
        let limits = &self.common.limits;
        let name = random_id().ok_or_else(overloaded)?;
        let id = digest(name.as_bytes());
        let sessions = &cluster.stores.sessions;
        let now = cluster.store_call(sessions.now()).await.map_err(StoreUnavailable::error)?;
        let ttl = limits.session_idle.min(UNUSED_SESSION_TTL) + EXPIRY_SLACK;
        let expires = now + ttl.as_millis() as u64;
        let record = Record::new(hex(&id))
            .owner(owner(&opener))
            .created(now)
            .expires(expires)
            .body(connection.save().ok_or_else(overloaded)?);
        let most = match &opener {
            Caller::Principal(_) => limits.sessions,
            Caller::Address(_) => (limits.anonymous_sessions / usize::from(ADDRESS_GROUPS)).max(1),
            Caller::Local => limits.anonymous_sessions,
        };
        let inserted = cluster.store_call(sessions.insert(record.clone(), most)).await;
        if !inserted.map_err(StoreUnavailable::error)? {
            return Err(too_many_sessions());
        }
        let session = self.restore(cluster, record.version(1), opener);
        let session = session.and_then(|session| self.admit(id, &session));
        let session = session.ok_or_else(too_many_sessions)?;
        Ok((session, name))
    }

    /// Creates a session from its record in the store.
    fn restore(
        &self,
        cluster: &Arc<Cluster>,
        record: Record,
        opener: Caller,
    ) -> Option<Arc<Session>> {
        let wire = self.common.context.wire.clone();
        let connection = Connection::restored(wire, &record.body, &record.id)?;
        let shared_record = SessionRecord::new(cluster.clone(), record);
        Some(Session::new(self.common.clone(), connection, opener, Some(shared_record)))
    }

    /// Finds the session of a GET or DELETE for its owner, after checking the protocol version.
    pub(crate) async fn check_and_find_shared(
        self: &Arc<Self>,
        cluster: &Arc<Cluster>,
        parsed: &RequestHeaders<'_>,
        scope: &RequestExtensions,
    ) -> SessionResult<SessionGuard> {
        check_version(parsed, &self.common.context.wire)?;
        self.find_shared_session(cluster, parsed, scope).await
    }

    /// Finds the session of a request for its owner.
    async fn find_shared_session(
        self: &Arc<Self>,
        cluster: &Arc<Cluster>,
        parsed: &RequestHeaders<'_>,
        scope: &RequestExtensions,
    ) -> SessionResult<SessionGuard> {
        self.join_cluster(cluster);
        let name = session_name(parsed)?;
        if name.len() != 32 {
            return Err(Box::new(SessionManager::not_found()));
        }
        let id = digest(name);
        let guard = self.load_shared(cluster, id, scope).await.map_err(error_response)?;
        if !guard.is_established() {
            // Also if it was evicted here just now: the store has it still.
            let full = |_| find_error_response(FindError::TableFull);
            self.establish(&id, &guard).map_err(full)?;
        }
        guard.touch();
        guard.set_principal(scope);
        Ok(guard)
    }

    async fn load_shared(
        self: &Arc<Self>,
        cluster: &Arc<Cluster>,
        id: [u8; 32],
        scope: &RequestExtensions,
    ) -> Result<SessionGuard, SessionStoreError> {
        if let Some((guard, idle)) = self.find_local(&id) {
            if !guard.belongs_to(scope) {
                return Err(SessionStoreError::Gone);
            }
            if let Some(shared_record) =
                guard.shared_record.as_ref().filter(|it| idle || it.is_stale())
            {
                self.remove_if_gone(
                    shared_record,
                    shared_record.refresh_or_mark_stale(&guard).await,
                )?;
            }
            return Ok(guard);
        }
        let record = cluster.store_call(cluster.stores.sessions.load(&hex(&id))).await?;
        let caller = live_session::principal(scope);
        let is_theirs = |record: &Record| is_owner(caller, &record.owner);
        let record = record.filter(is_theirs).ok_or(SessionStoreError::Gone)?;
        let session =
            self.restore(cluster, record, Caller::of(scope)).ok_or(SessionStoreError::Gone)?;
        // This request ends its handshake, if another process has not.
        session.set_established();
        let guard =
            SessionGuard::new(self.admit(id, &session).ok_or(SessionStoreError::Contended)?);
        match (guard.belongs_to(scope), guard.is_ended()) {
            (true, false) => Ok(guard),
            // The session was evicted at once.
            (true, true) => Err(SessionStoreError::Contended),
            (false, _) => Err(SessionStoreError::Gone),
        }
    }

    /// Removes a session that another process has ended.
    fn remove_if_gone(
        &self,
        shared_record: &SessionRecord,
        loaded: Result<(), SessionStoreError>,
    ) -> Result<(), SessionStoreError> {
        if loaded == Err(SessionStoreError::Gone) {
            self.remove_ended(&shared_record.key);
        }
        loaded
    }

    /// Handles a message posted to a session.
    pub(crate) async fn post_shared(
        self: &Arc<Self>,
        cluster: &Arc<Cluster>,
        parsed: &RequestHeaders<'_>,
        message: Bytes,
        scope: RequestExtensions,
    ) -> HttpResponse {
        let posted = self.take_shared(cluster, parsed, message, scope).await;
        match posted {
            Ok(EventualResponse::Now(reply)) => reply,
            Ok(EventualResponse::Later(reply)) => reply.await,
            Err(error_response) => *error_response,
        }
    }

    async fn take_shared(
        self: &Arc<Self>,
        cluster: &Arc<Cluster>,
        parsed: &RequestHeaders<'_>,
        message: Bytes,
        scope: RequestExtensions,
    ) -> SessionResult<EventualResponse<'static>> {
        let guard = self.find_shared_session(cluster, parsed, &scope).await?;
        let (accept, length) = (parsed.accept, message.len());
        let Some(shared_record) = &guard.shared_record else {
            return Err(Box::new(SessionManager::not_found()));
        };
        let received = shared_record.receive(&guard, message, &parsed.message).await;
        let mut received = received.map_err(|error| {
            if error == SessionStoreError::Gone {
                self.remove_ended(&shared_record.key);
            }
            error_response(error)
        })?;
        let forwarded = self.forward(&guard, shared_record, &mut received).await;
        forwarded.map_err(|unavailable| error_response(unavailable.into()))?;
        Ok(self.handle_received(PostContext { guard, scope, accept, length }, received))
    }

    /// Opens the session's stream, or resumes one of its streams, from memory or from the store.
    pub(crate) async fn get_shared(
        &self,
        guard: SessionGuard,
        parsed: &RequestHeaders<'_>,
        scope: RequestExtensions,
    ) -> SessionResult<HttpResponse> {
        let (stream, after) = match parsed.last_event {
            HeaderField::Absent => (SESSION_STREAM, None),
            last => {
                let named = last.one().and_then(stream_reader::parse);
                let (stream, event) = named.ok_or_else(|| Box::new(unknown_event()))?;
                (stream, Some(event))
            }
        };
        if let (Some(after), Some(shared_record)) =
            (after.filter(|_| stream != SESSION_STREAM), &guard.shared_record)
            && let Some(stream_reader) = StreamReader::resume(guard.clone(), stream, after)
        {
            let reader = shared_record.register_reader(stream, true).await;
            let reader = reader.map_err(|unavailable| error_response(unavailable.into()))?;
            return Ok(post::events(stream_reader.with_registration(reader)));
        }
        if let Some(shared_record) =
            guard.shared_record.as_ref().filter(|_| stream == SESSION_STREAM)
        {
            // Applies subscriptions that another process stored just now.
            self.remove_if_gone(shared_record, shared_record.refresh(&guard).await)
                .map_err(error_response)?;
        }
        let stored = StoredStreamReader::open(guard, stream, after, scope).await;
        match stored.map_err(|unavailable| error_response(unavailable.into()))? {
            Some(stored) => {
                let every = stored.keep_alive();
                Ok(response::events(HttpBody::events(EventSource::Stored(stored), every)))
            }
            None => Ok(unknown_event()),
        }
    }

    /// Ends a session in every process.
    pub(crate) async fn delete_shared(&self, guard: &SessionGuard) -> SessionResult<HttpResponse> {
        let Some(shared_record) = &guard.shared_record else {
            return Ok(SessionManager::not_found());
        };
        let removed = shared_record
            .remove()
            .await
            .map_err(|unavailable| error_response(unavailable.into()))?;
        self.remove_ended(&shared_record.key);
        Ok(if removed { response::status(204) } else { SessionManager::not_found() })
    }

    /// Extends the expiry of used sessions in the store, and removes those that have ended there.
    pub(crate) fn save_uses(self: &Arc<Self>, sessions: Vec<Arc<Session>>) {
        let Some(cluster) = self.cluster.clone().filter(|_| !sessions.is_empty()) else { return };
        let (table, idle) = (Arc::downgrade(self), self.common.limits.session_idle);
        cluster.spawn(async move {
            for session in sessions {
                let Some(shared_record) = &session.shared_record else { continue };
                if session.is_in_use() {
                    shared_record.mark_used();
                }
                if shared_record.touch(&session, idle).await == Err(SessionStoreError::Gone)
                    && let Some(table) = table.upgrade()
                {
                    table.remove_ended(&shared_record.key);
                }
            }
        });
    }

    /// Subscribes to the cluster's bus and mailbox, once.
    fn join_cluster(self: &Arc<Self>, cluster: &Arc<Cluster>) {
        self.joined_cluster.call_once(|| {
            cluster.start();
            // Before any session is loaded, so that no change of one is missed.
            let receiver = BusReceiver::new(&*cluster.stores.bus);
            cluster.spawn_background(SessionManager::receive_bus(
                Arc::downgrade(self),
                cluster.clone(),
                receiver,
            ));
            cluster
                .spawn_background(SessionManager::read_mail(Arc::downgrade(self), cluster.clone()));
        });
    }
}

/// Returns the response for a session that cannot be used.
fn error_response(error: SessionStoreError) -> Box<HttpResponse> {
    Box::new(match error {
        SessionStoreError::StoreUnavailable => response::busy(STORE_UNAVAILABLE),
        SessionStoreError::Gone => SessionManager::not_found(),
        SessionStoreError::Contended => {
            response::busy("The session is being changed by too many requests: try again later")
        }
    })
}

/// Owner that the store counts a session under. It does not reveal the principal or the address.
fn owner(opener: &Caller) -> String {
    match opener {
        Caller::Principal(id) => hex(&digest(id.as_bytes())),
        _ => match opener.address_group(ADDRESS_GROUPS) {
            Some(group) => format!("{GROUP_MARK}{group:x}"),
            None => String::new(),
        },
    }
}

/// True if a caller with this principal may use the sessions of `owner`. The address of an
/// unauthenticated caller counts for limits only, because it may change.
fn is_owner(principal: Option<&str>, owner: &str) -> bool {
    match principal {
        Some(id) => hex(&digest(id.as_bytes())) == owner,
        None => owner.is_empty() || owner.starts_with(GROUP_MARK),
    }
}
