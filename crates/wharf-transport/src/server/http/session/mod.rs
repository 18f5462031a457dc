//! Legacy sessions over HTTP: `Mcp-Session-Id`, streams that can be resumed, questions to the client.
//!
//! A call that does not end at once is a task of its session and writes into a stream ([`log`]);
//! responses only follow streams ([`follow`]), so a client that is gone has cancelled nothing and
//! can come back for the rest. The one stream of number 0 is the session's own.
//!
//! Where several processes serve a session ([`shared`]), it is a record in a store ([`member`]), the
//! events of its streams are in another before they are sent ([`journal`]), and whoever comes back
//! to a process that has them not follows them there ([`stored`]).

pub(crate) mod call;
pub(crate) mod cluster;
pub(crate) mod event_log;
pub(crate) mod get_stream;
pub(crate) mod id;
pub(crate) mod post;
pub(crate) mod replay_budget;
pub(crate) mod session;
pub(crate) mod stream_reader;
pub(crate) mod table;

use std::{
    future::poll_fn,
    sync::{Arc, Mutex, Once},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::HeaderValue;
use wharf_model::{ActiveCall, Caller, Error, Outcome, Request, RequestExtensions};
use wharf_wire::{Codec, Connection, HeaderField, Received};

use crate::server::http::session::{
    session::{Common, Session, Visit},
    table::Table,
};
use crate::{ServerContext, Shutdown, server::jsonl::in_flight::no_place};
use crate::{
    server::http::{
        HttpLimits,
        call_stream::CallStream,
        cluster::Fleet,
        request_headers::Seen,
        response,
        response::{Due, Reply},
    },
    task_set::Tasks,
};

pub(crate) use crate::server::http::session::{
    cluster::stored_stream_reader::Stored, stream_reader::Follower,
};

/// The header that names a session.
const SESSION: &str = "mcp-session-id";

/// The legacy sessions of one endpoint.
pub(crate) struct Sessions {
    common: Arc<Common>,
    tasks: Arc<Tasks>,
    table: Mutex<Table>,
    /// The other processes that serve them too, if there may be any.
    fleet: Option<Arc<Fleet>>,
    /// Done when this process hears them.
    joined: Once,
}

impl Sessions {
    pub(crate) fn new(
        host: Arc<ServerContext>,
        limits: HttpLimits,
        tasks: Arc<Tasks>,
        shutdown: Shutdown,
        fleet: Option<Arc<Fleet>>,
    ) -> Arc<Self> {
        let common = Common::new(host, limits, shutdown);
        let table = Mutex::new(Table::new(&common.limits));
        Arc::new(Sessions { common, tasks, table, fleet, joined: Once::new() })
    }

    /// Answers a message that no modern header goes with.
    pub(crate) fn post<'a>(
        self: &'a Arc<Self>,
        seen: &'a Seen<'_>,
        message: Bytes,
        scope: RequestExtensions,
    ) -> Due<'a> {
        if seen.session == HeaderField::Absent {
            return Due::later(self.open(seen, message, scope));
        }
        if let Some(fleet) = &self.fleet {
            return Due::later(self.post_shared(fleet, seen, message, scope));
        }
        match self.visit(seen, &scope) {
            Ok(visit) => self.receive(visit, seen, message, scope),
            Err(refusal) => Due::Now(*refusal),
        }
    }

    /// Opens the session's own stream, or resumes any of its streams.
    pub(crate) async fn get(self: &Arc<Self>, seen: &Seen<'_>, scope: RequestExtensions) -> Reply {
        if !seen.accept.events {
            return response::refuse(406, "Accept must allow text/event-stream");
        }
        if let Some(fleet) = &self.fleet {
            let reply = async {
                let visit = self.enter_shared(fleet, seen, &scope).await?;
                self.get_shared(visit, seen, scope).await
            };
            return reply.await.unwrap_or_else(|refusal| *refusal);
        }
        let visit = match self.check_version(seen).and_then(|()| self.visit(seen, &scope)) {
            Ok(visit) => visit,
            Err(refusal) => return *refusal,
        };
        let own = visit.own_stream();
        let listening = self.listen(visit.session(), &scope, true);
        match seen.last_event {
            HeaderField::Absent => match (Follower::of(visit, own), listening) {
                (Some(follower), Ok(())) => post::stream(follower),
                (Some(_), Err(error)) => post::unheard(&error),
                (None, _) => response::refuse(409, "The session's own stream is open already"),
            },
            last => {
                let named = last.one().and_then(stream_reader::parse);
                match named.and_then(|(stream, event)| Follower::after(visit, stream, event)) {
                    Some(follower) => post::events(follower),
                    None => unknown_event(),
                }
            }
        }
    }

    /// Ends a session.
    pub(crate) async fn delete(
        self: &Arc<Self>,
        seen: &Seen<'_>,
        scope: RequestExtensions,
    ) -> Reply {
        if let Some(fleet) = &self.fleet {
            let reply = async {
                let visit = self.enter_shared(fleet, seen, &scope).await?;
                self.delete_shared(&visit).await
            };
            return reply.await.unwrap_or_else(|refusal| *refusal);
        }
        match self.check_version(seen).and_then(|()| self.visit(seen, &scope)) {
            Ok(_) if self.remove(seen.session.one().unwrap_or_default()) => response::status(204),
            Ok(_) => Sessions::gone(),
            Err(refusal) => *refusal,
        }
    }

    fn check_version(&self, seen: &Seen<'_>) -> Result<(), Box<Reply>> {
        match seen.message.is_spoken(&self.common.host.wire) {
            true => Ok(()),
            false => Err(Box::new(response::refuse(400, "Unsupported MCP-Protocol-Version"))),
        }
    }

    fn visit(&self, seen: &Seen<'_>, scope: &RequestExtensions) -> Result<Visit, Box<Reply>> {
        let refuse = |problem| Err(Box::new(response::refuse(400, problem)));
        match seen.session {
            HeaderField::One(id) => {
                let visit = self.find(id, scope).ok_or_else(|| Box::new(Sessions::gone()))?;
                visit.set_principal(scope);
                Ok(visit)
            }
            HeaderField::Absent => refuse("There is no Mcp-Session-Id header"),
            HeaderField::Several => refuse("There is more than one Mcp-Session-Id header"),
        }
    }

    /// There is no such session: it never was, it has ended, or it is somebody else's.
    fn gone() -> Reply {
        response::refuse(404, "There is no such session: send `initialize` without Mcp-Session-Id")
    }

    /// Answers a message without a session, which may open one.
    async fn open(
        self: &Arc<Self>,
        seen: &Seen<'_>,
        message: Bytes,
        scope: RequestExtensions,
    ) -> Reply {
        let mut connection = Connection::new(self.common.host.wire.clone());
        match connection.receive_http(message, &seen.message) {
            Received::Call(mut request, codec) => {
                let opener = Caller::of(&scope);
                request.scope = scope;
                let (call, outcome) = self.run(request, codec).await;
                let mut reply = Vec::new();
                let status = call.codec().encode(&outcome, &mut reply);
                if !connection.is_open() {
                    return response::ended(status, &outcome, reply);
                }
                if let Some(fleet) = &self.fleet {
                    return match self.open_shared(fleet, &connection, opener).await {
                        Ok((session, id)) => opened(session, &id, seen, reply),
                        Err(error) => post::refuse(call.codec(), error),
                    };
                }
                let session = Session::new(self.common.clone(), connection, opener, None);
                match self.insert(&session) {
                    Some(id) => opened(session, &id, seen, reply),
                    None => post::refuse(call.codec(), full()),
                }
            }
            Received::Reply(reply, status) => response::json(status, reply),
            _ => response::status(202),
        }
    }

    /// Runs a call to its end. If the client goes away before, nothing is left of it.
    async fn run(&self, request: Request, codec: Codec) -> (CallStream, Outcome) {
        let host = &self.common.host;
        let exchange =
            ActiveCall::start(&*host.service, request, host.timer.clone(), host.deadlines);
        let mut call = CallStream::new(exchange, codec, &self.common.shutdown, None);
        // Nobody need be woken: one that goes on is polled again at once.
        let first = call.poll_end(&mut Context::from_waker(Waker::noop()));
        let outcome = match first {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => {
                call.cut_after(&self.common.shutdown, self.common.limits.grace);
                poll_fn(|cx| call.poll_end(cx)).await
            }
        };
        (call, outcome)
    }
}

/// There is no place for another session.
fn full() -> Error {
    no_place().with_message(
        "The server is full: it has as many sessions as it may have, and all are in use. Try again later",
    )
}

fn unknown_event() -> Reply {
    response::refuse(400, "Last-Event-ID names no event of this session")
}

fn opened(session: Arc<Session>, id: &str, seen: &Seen<'_>, reply: Vec<u8>) -> Reply {
    let mut reply = match seen.accept.json {
        true => response::json(200, reply),
        false => post::one_event(&Visit::new(session), reply),
    };
    if let Ok(id) = HeaderValue::from_str(id) {
        reply.headers_mut().insert(SESSION, id);
    }
    reply
}
