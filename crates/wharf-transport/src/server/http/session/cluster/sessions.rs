//! Sessions that several processes serve: each has those that it was asked for of late.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use wharf_model::{Caller, Error, Record, RequestExtensions};
use wharf_wire::{Connection, HeaderField};

use crate::server::http::session::{
    Sessions,
    cluster::{
        record::{Member, SLACK, Unkept},
        stored_stream_reader::Stored,
    },
    full, post,
    post::Posted,
    session,
    session::{OWN, Session, Visit},
    stream_reader,
    stream_reader::Follower,
    unknown_event,
};
use crate::server::{
    http::{
        HttpBody,
        cluster::{Away, Fleet, GONE, Hearing, digest, hex},
        request_headers::Seen,
        response,
        response::{Due, Reply},
        response_body::Source,
        session::id::unguessable,
    },
    jsonl::in_flight::no_place,
};

/// How long a session is kept at first that nobody comes back to.
const UNUSED: Duration = Duration::from_secs(120);
/// Number of owners that unauthenticated callers are counted as, by their addresses. Each may have a quarter of
/// `HttpLimits::anonymous_sessions`.
const ADDRESS_GROUPS: u16 = 16;
/// First character of an owner that is a group of addresses. No digest of a principal contains it.
const GROUP_MARK: char = '~';

type Refused<T> = Result<T, Box<Reply>>;

impl Sessions {
    /// Keeps a session that was opened here where every process finds it, and gives it an id.
    pub(crate) async fn open_shared(
        self: &Arc<Self>,
        fleet: &Arc<Fleet>,
        connection: &Connection,
        opener: Caller,
    ) -> Result<(Arc<Session>, String), Error> {
        self.join(fleet);
        let limits = &self.common.limits;
        let name = unguessable().ok_or_else(no_place)?;
        let id = digest(name.as_bytes());
        let sessions = &fleet.stores.sessions;
        let now = fleet.ask(sessions.now()).await.map_err(Away::error)?;
        let record = Record {
            id: hex(&id),
            owner: owner(&opener),
            created: now,
            expires: Some(now + (limits.session_idle.min(UNUSED) + SLACK).as_millis() as u64),
            body: connection.save().ok_or_else(no_place)?,
            ..Record::default()
        };
        let most = match &opener {
            Caller::Principal(_) => limits.sessions,
            Caller::Address(_) => limits.anonymous_sessions.div_ceil(4),
            Caller::Local => limits.anonymous_sessions,
        };
        let inserted = fleet.ask(sessions.insert(record.clone(), most)).await;
        if !inserted.map_err(Away::error)? {
            return Err(full());
        }
        let session = self.restore(fleet, Record { version: 1, ..record }, opener);
        let session = session.and_then(|session| self.admit(id, &session));
        let session = session.ok_or_else(full)?;
        Ok((session, name))
    }

    /// Goes on with a session that the store has.
    fn restore(&self, fleet: &Arc<Fleet>, record: Record, opener: Caller) -> Option<Arc<Session>> {
        let wire = self.common.host.wire.clone();
        let connection = Connection::restored(wire, &record.body, &record.id)?;
        let member = Member::new(fleet.clone(), record);
        Some(Session::new(self.common.clone(), connection, opener, Some(member)))
    }

    /// The session that a request without a message names, for whoever opened it.
    pub(crate) async fn enter_shared(
        self: &Arc<Self>,
        fleet: &Arc<Fleet>,
        seen: &Seen<'_>,
        scope: &RequestExtensions,
    ) -> Refused<Visit> {
        self.check_version(seen)?;
        self.visit_shared(fleet, seen, scope).await
    }

    /// The session that a request names, for whoever opened it.
    async fn visit_shared(
        self: &Arc<Self>,
        fleet: &Arc<Fleet>,
        seen: &Seen<'_>,
        scope: &RequestExtensions,
    ) -> Refused<Visit> {
        self.join(fleet);
        let refuse = |problem| Err(Box::new(response::refuse(400, problem)));
        let name = match seen.session {
            HeaderField::One(name) if name.len() == 32 => name,
            HeaderField::One(_) => return Err(Box::new(Sessions::gone())),
            HeaderField::Absent => return refuse("There is no Mcp-Session-Id header"),
            HeaderField::Several => return refuse("There is more than one Mcp-Session-Id header"),
        };
        let found = self.find_shared(fleet, digest(name), scope).await;
        let visit = found.map_err(refusal)?;
        visit.touch();
        visit.set_principal(scope);
        Ok(visit)
    }

    async fn find_shared(
        self: &Arc<Self>,
        fleet: &Arc<Fleet>,
        id: [u8; 32],
        scope: &RequestExtensions,
    ) -> Result<Visit, Unkept> {
        if let Some((visit, idle)) = self.known(&id) {
            if !visit.belongs_to(scope) {
                return Err(Unkept::Gone);
            }
            if let Some(member) = visit.member.as_ref().filter(|it| idle || it.is_stale()) {
                self.unless_gone(member, member.refresh(&visit).await)?;
            }
            return Ok(visit);
        }
        let record = fleet.ask(fleet.stores.sessions.load(&hex(&id))).await?;
        let caller = session::principal(scope);
        let is_theirs = |record: &Record| is_owner(caller, &record.owner);
        let record = record.filter(is_theirs).ok_or(Unkept::Gone)?;
        let session = self.restore(fleet, record, Caller::of(scope)).ok_or(Unkept::Gone)?;
        let visit = Visit::new(self.admit(id, &session).ok_or(Unkept::Crowded)?);
        match (visit.belongs_to(scope), visit.is_ended()) {
            (true, false) => Ok(visit),
            // It had to make room at once.
            (true, true) => Err(Unkept::Crowded),
            (false, _) => Err(Unkept::Gone),
        }
    }

    /// Lets a session go that has ended elsewhere.
    fn unless_gone(&self, member: &Member, seen: Result<(), Unkept>) -> Result<(), Unkept> {
        if seen == Err(Unkept::Gone) {
            self.forget(&member.key);
        }
        seen
    }

    /// Answers a message of a session.
    pub(crate) async fn post_shared(
        self: &Arc<Self>,
        fleet: &Arc<Fleet>,
        seen: &Seen<'_>,
        message: Bytes,
        scope: RequestExtensions,
    ) -> Reply {
        let posted = self.take_shared(fleet, seen, message, scope).await;
        match posted {
            Ok(Due::Now(reply)) => reply,
            Ok(Due::Later(reply)) => reply.await,
            Err(refusal) => *refusal,
        }
    }

    async fn take_shared(
        self: &Arc<Self>,
        fleet: &Arc<Fleet>,
        seen: &Seen<'_>,
        message: Bytes,
        scope: RequestExtensions,
    ) -> Refused<Due<'static>> {
        let visit = self.visit_shared(fleet, seen, &scope).await?;
        let (accept, length) = (seen.accept, message.len());
        let Some(member) = &visit.member else { return Err(Box::new(Sessions::gone())) };
        let received = member.receive(&visit, message, &seen.message).await;
        let mut received = received.map_err(|unkept| {
            if unkept == Unkept::Gone {
                self.forget(&member.key);
            }
            refusal(unkept)
        })?;
        let forwarded = self.forward(&visit, member, &mut received).await;
        forwarded.map_err(|away| refusal(away.into()))?;
        Ok(self.treat(Posted { visit, scope, accept, length }, received))
    }

    /// Opens the session's own stream, or resumes any of its streams, wherever they come from.
    pub(crate) async fn get_shared(
        &self,
        visit: Visit,
        seen: &Seen<'_>,
        scope: RequestExtensions,
    ) -> Refused<Reply> {
        let (stream, after) = match seen.last_event {
            HeaderField::Absent => (OWN, None),
            last => {
                let named = last.one().and_then(stream_reader::parse);
                let (stream, event) = named.ok_or_else(|| Box::new(unknown_event()))?;
                (stream, Some(event))
            }
        };
        if let (Some(after), Some(member)) = (after.filter(|_| stream != OWN), &visit.member)
            && let Some(follower) = Follower::after(visit.clone(), stream, after)
        {
            let reader = member.follow(stream, true).await;
            let reader = reader.map_err(|away| refusal(away.into()))?;
            return Ok(post::events(follower.known_as(reader)));
        }
        if let Some(member) = visit.member.as_ref().filter(|_| stream == OWN) {
            // What was subscribed to at another process just now is heard from now on, whoever tells.
            self.unless_gone(member, member.look_up(&visit).await).map_err(refusal)?;
        }
        let stored = Stored::of(visit, stream, after, scope).await;
        match stored.map_err(|away| refusal(away.into()))? {
            Some(stored) => {
                let every = stored.keep_alive();
                Ok(response::events(HttpBody::events(Source::Stored(stored), every)))
            }
            None => Ok(unknown_event()),
        }
    }

    /// Ends a session in every process.
    pub(crate) async fn delete_shared(&self, visit: &Visit) -> Refused<Reply> {
        let Some(member) = &visit.member else { return Ok(Sessions::gone()) };
        let removed = member.remove().await.map_err(|away| refusal(away.into()))?;
        self.forget(&member.key);
        Ok(if removed { response::status(204) } else { Sessions::gone() })
    }

    /// Notes in the store which sessions are used, and lets those go that have ended there.
    pub(crate) fn touch_all(self: &Arc<Self>, sessions: Vec<Arc<Session>>) {
        let Some(fleet) = self.fleet.clone().filter(|_| !sessions.is_empty()) else { return };
        let (table, idle) = (Arc::downgrade(self), self.common.limits.session_idle);
        fleet.spawn(async move {
            for session in sessions {
                let Some(member) = &session.member else { continue };
                if session.is_in_use() {
                    member.note_use();
                }
                if member.touch(&session, idle).await == Err(Unkept::Gone)
                    && let Some(table) = table.upgrade()
                {
                    table.forget(&member.key);
                }
            }
        });
    }

    /// Begins to hear what other processes say, once.
    fn join(self: &Arc<Self>, fleet: &Arc<Fleet>) {
        self.joined.call_once(|| {
            fleet.start();
            // Before any session is loaded, of whose changes it might not hear.
            let hearing = Hearing::new(&*fleet.stores.bus);
            fleet.attend(Sessions::hear(Arc::downgrade(self), fleet.clone(), hearing));
            fleet.attend(Sessions::read_mail(Arc::downgrade(self), fleet.clone()));
        });
    }
}

/// Why a session cannot be used.
fn refusal(unkept: Unkept) -> Box<Reply> {
    Box::new(match unkept {
        Unkept::Away => response::busy(GONE),
        Unkept::Gone => Sessions::gone(),
        Unkept::Crowded => response::busy("Too much is going on: try again later"),
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
