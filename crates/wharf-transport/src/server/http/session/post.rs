//! What is posted to a session, and how it is answered.

use std::{
    future::{poll_fn, ready},
    sync::Arc,
};

use bytes::Bytes;
use tokio::time::timeout;
use wharf_model::{Error, Event, Outcome, Request, RequestExtensions};
use wharf_wire::{Codec, Received, sse};

use crate::server::http::session::{
    SessionManager,
    call::{ReplyCollector, StartedCall},
    cluster::record::SessionRecord,
    event_log::{FirstEvent, ReplyStatus},
    session::{Session, SessionGuard},
    stream_reader::StreamReader,
};
use crate::server::{
    http::{
        HttpBody,
        cluster::{STORE_UNAVAILABLE, StoreUnavailable},
        request_headers::{AcceptHeader, RequestHeaders},
        response,
        response::{EventualResponse, HttpResponse},
        response_body::EventSource,
    },
    jsonl::in_flight::{duplicate_id, overloaded},
};

/// What was posted at once.
pub(super) struct PostContext {
    pub(super) guard: SessionGuard,
    pub(super) scope: RequestExtensions,
    pub(super) accept: AcceptHeader,
    pub(super) length: usize,
}

impl SessionManager {
    /// Answers a message of a session.
    pub(crate) fn receive(
        &self,
        guard: SessionGuard,
        parsed: &RequestHeaders<'_>,
        message: Bytes,
        scope: RequestExtensions,
    ) -> EventualResponse<'static> {
        let (accept, length) = (parsed.accept, message.len());
        // Its own statement, so that the next message can be read while this one is answered.
        let received = guard.connection().receive_http(message, &parsed.message);
        self.handle_received(PostContext { guard, scope, accept, length }, received)
    }

    /// Answers what was received in a session.
    pub(super) fn handle_received(
        &self,
        post: PostContext,
        received: Received,
    ) -> EventualResponse<'static> {
        match received {
            Received::Call(request, codec) if !codec.is_silent() => self.call(post, request, codec),
            Received::Reply(reply, status) => {
                match self.start_listen(post.guard.session(), &post.scope, false) {
                    Ok(()) => post.after_listen_start(post.complete_reply(reply, status)),
                    Err(error) => EventualResponse::Now(listen_refused(&error)),
                }
            }
            Received::Batch(members) => self.batch(post, members),
            other => {
                self.handle_one_way(&post, other);
                post.after_listen_start(response::status(202))
            }
        }
    }

    fn call(
        &self,
        mut post: PostContext,
        request: Request,
        codec: Codec,
    ) -> EventualResponse<'static> {
        if let Err(error) = check_admission(&post.guard, &codec) {
            return EventualResponse::Now(refuse(&codec, error));
        }
        if codec.may_become_task() {
            // So that somebody hears what becomes of it; if nobody can, its owner still asks.
            let _ = self.start_listen(post.guard.session(), &post.scope, false);
        }
        let scope = std::mem::take(&mut post.scope);
        let started = StartedCall::new(&post.guard, request, codec, scope);
        if let Some(Event::Done(outcome)) = &started.first {
            let mut reply = Vec::new();
            let status = started.codec.encode(outcome, &mut reply);
            if matches!(outcome, Outcome::Task(_)) {
                SessionRecord::save_in_background(post.guard.session());
            }
            // A status can be told only without a stream.
            return EventualResponse::Now(match post.accept.json || status != 200 {
                true => response::ended(status, outcome, reply),
                false => one_event(&post.guard, reply),
            });
        }
        let collector = post.collector(false);
        collector.expect_reply(&started.codec);
        let following = post.follow(&collector);
        started.spawn(&collector, post.length, &self.tasks);
        EventualResponse::later(following)
    }

    fn batch(&self, post: PostContext, members: Vec<Received>) -> EventualResponse<'static> {
        let collector = post.collector(true);
        let following = post.follow(&collector);
        let mut due = false;
        for member in members {
            due |= self.batch_member(&post, &collector, member);
        }
        if !due {
            post.guard.remove_stream(collector.log.number);
            return post.after_listen_start(response::status(202));
        }
        collector.hold(post.length);
        EventualResponse::later(after(post.guard.listen_starting(), following))
    }

    /// Treats one member of a batch. True if a reply to it is due.
    fn batch_member(
        &self,
        post: &PostContext,
        collector: &Arc<ReplyCollector>,
        member: Received,
    ) -> bool {
        let reply = |text: Vec<u8>| collector.add(text, ReplyStatus { status: 200, refused: None });
        match member {
            Received::Call(request, codec) if !codec.is_silent() => {
                let full = if collector.is_full() { Err(overloaded()) } else { Ok(()) };
                if let Err(error) = full.and_then(|()| check_admission(&post.guard, &codec)) {
                    let mut refusal = Vec::new();
                    codec.refuse(&error, &mut refusal);
                    reply(refusal);
                    return true;
                }
                let started = StartedCall::new(&post.guard, request, codec, post.scope.clone());
                collector.expect_reply(&started.codec);
                if let Some(Event::Done(outcome)) = &started.first {
                    let mut text = Vec::new();
                    started.codec.encode(outcome, &mut text);
                    reply(text);
                } else {
                    // The tally counts the message itself: any of its calls keeps all of it.
                    started.spawn(collector, 0, &self.tasks);
                }
            }
            Received::Reply(text, _) => {
                // What cannot begin now does so with the next message, or when it is heard.
                let _ = self.start_listen(post.guard.session(), &post.scope, false);
                reply(text);
            }
            other => {
                self.handle_one_way(post, other);
                return false;
            }
        }
        true
    }

    /// Takes note of what has no reply.
    fn handle_one_way(&self, post: &PostContext, received: Received) {
        let session = post.guard.session();
        match (received, session.in_flight_calls()) {
            (Received::Answer(number, answer), Some(calls)) => calls.answer(number, answer),
            (Received::Cancel(id), Some(calls)) => calls.cancel(&id),
            (Received::Call(request, codec), _) => match self.common.context.service.moment() {
                Some(now) => {
                    session.connection().put_off_listen(now);
                    let _ = self.start_listen(session, &post.scope, session.has_session_stream());
                }
                None => {
                    let started = StartedCall::new(session, request, codec, post.scope.clone());
                    started.spawn_listen(session, &self.tasks);
                }
            },
            // Batches do not nest.
            _ => {}
        }
    }

    /// Begins the session's listen if it is due: until then there is none, because most sessions
    /// that are idle are heard by nobody. Fails if it may be tried again later.
    pub(super) fn start_listen(
        &self,
        session: &Arc<Session>,
        scope: &RequestExtensions,
        has_session_stream: bool,
    ) -> Result<(), Box<Error>> {
        // Where several processes serve the session, whoever follows its stream listens.
        if session.shared_record.is_some() {
            return Ok(());
        }
        // Held while the listen begins: a subscription that is made meanwhile must not be answered
        // before there is somebody who hears of updates.
        let mut connection = session.connection();
        let Some((request, codec)) = connection.due_listen(has_session_stream) else {
            return Ok(());
        };
        let since = request.since;
        let mut started = StartedCall::new(session, request, codec, scope.clone());
        match (started.first.take(), since) {
            (Some(Event::Done(Outcome::Failed(error))), Some(since))
                if error.kind.is_retryable() =>
            {
                connection.put_off_listen(since);
                return Err(error);
            }
            (None, _) => started.start_guard = Some(session.mark_listen_starting()),
            (first, _) => started.first = first,
        }
        started.spawn_listen(session, &self.tasks);
        Ok(())
    }
}

impl PostContext {
    fn collector(&self, batch: bool) -> Arc<ReplyCollector> {
        ReplyCollector::new(self.guard.session(), batch, !self.accept.events)
    }

    /// Answers with a reply that is there already, once somebody hears of updates if the session's
    /// listen is on its way: it may be the reply to a subscription.
    fn after_listen_start(&self, reply: HttpResponse) -> EventualResponse<'static> {
        match self.guard.listen_starting() {
            None => EventualResponse::Now(reply),
            beginning => EventualResponse::later(after(beginning, ready(reply))),
        }
    }

    /// Answers with a reply that is there already.
    fn complete_reply(&self, reply: Vec<u8>, status: u16) -> HttpResponse {
        if self.accept.json || status != 200 {
            return response::json(status, reply);
        }
        one_event(&self.guard, reply)
    }

    /// Answers with one message if the reply is all there is to say, else with events.
    fn follow(
        &self,
        collector: &ReplyCollector,
    ) -> impl Future<Output = HttpResponse> + Send + use<> {
        let (guard, accept, log) = (self.guard.clone(), self.accept, collector.log.clone());
        let batch = collector.batch;
        // Before the call begins to run, so that it cannot run far ahead of the client.
        let follower = StreamReader::attach(guard.clone(), log);
        async move {
            let Some(follower) = follower else { return SessionManager::not_found() };
            match first(&follower, accept).await {
                FirstEvent::Message => stored_stream(follower, batch).await,
                FirstEvent::Nothing if guard.is_ended() => SessionManager::not_found(),
                FirstEvent::Nothing if accept.events => response::events(HttpBody::empty()),
                FirstEvent::Nothing => response::status(202),
                FirstEvent::Reply(ReplyStatus { status: 200, .. }) if !accept.json => {
                    stored_stream(follower, batch).await
                }
                FirstEvent::Reply(reply_status) => {
                    let reply = follower.into_reply();
                    // A session that ended just now took it along.
                    if reply.is_empty() {
                        return SessionManager::not_found();
                    }
                    let mut reply = response::json(reply_status.status, reply);
                    if let Some(error) = reply_status.refused {
                        response::explain(&mut reply, &error);
                    }
                    reply
                }
            }
        }
    }
}

/// Answers when the session's listen has begun, if it is on its way.
async fn after(
    beginning: Option<impl Future<Output = ()>>,
    reply: impl Future<Output = HttpResponse>,
) -> HttpResponse {
    if let Some(beginning) = beginning {
        beginning.await;
    }
    reply.await
}

/// What the stream begins with, or something if that takes so long that the client might despair.
async fn first(follower: &StreamReader, accept: AcceptHeader) -> FirstEvent {
    let first = poll_fn(|cx| follower.poll_first(cx));
    match accept.events {
        true => timeout(follower.keep_alive(), first).await.unwrap_or(FirstEvent::Message),
        false => first.await,
    }
}

/// A response that follows a stream from its beginning, once that is where others find it.
async fn stored_stream(follower: StreamReader, batch: bool) -> HttpResponse {
    match follower.persist(batch).await {
        Ok(()) => stream(follower),
        Err(StoreUnavailable) => response::busy(STORE_UNAVAILABLE),
    }
}

/// A response that follows a stream from its beginning.
pub(crate) fn stream(mut follower: StreamReader) -> HttpResponse {
    follower.prime();
    events(follower)
}

/// A response that follows a stream.
pub(crate) fn events(follower: StreamReader) -> HttpResponse {
    let every = follower.keep_alive();
    response::events(HttpBody::events(EventSource::Session(follower), every))
}

/// A stream of one reply, for a client that reads nothing but events.
pub(crate) fn one_event(guard: &SessionGuard, reply: Vec<u8>) -> HttpResponse {
    if guard.shared_record.is_some() {
        // It is there whole: nobody need come back for it, to whichever process.
        let mut event = Vec::new();
        sse::event(&mut event, None, &reply);
        return response::events(HttpBody::whole(event));
    }
    let collector = ReplyCollector::new(guard.session(), false, false);
    let follower = StreamReader::attach(guard.clone(), collector.log.clone());
    collector.add(reply, ReplyStatus { status: 200, refused: None });
    follower.map_or_else(SessionManager::not_found, stream)
}

/// Nobody hears for the session of what changes; the client may try again.
pub(crate) fn listen_refused(error: &Error) -> HttpResponse {
    let mut reply = response::refuse(503, "Too many listen; try again later");
    response::explain(&mut reply, error);
    reply
}

/// Whether the call may begin.
fn check_admission(session: &Session, codec: &Codec) -> Result<(), Error> {
    let Some(in_flight) = session.in_flight_calls().filter(|it| !it.is_empty()) else {
        return Ok(());
    };
    if in_flight.has_id_of(codec) {
        return Err(duplicate_id());
    }
    let common = &session.common;
    let free = in_flight.calls() < common.limits.session_calls;
    if free && in_flight.has_memory(&common.context.limits) { Ok(()) } else { Err(overloaded()) }
}

pub(crate) fn refuse(codec: &Codec, error: Error) -> HttpResponse {
    let mut refusal = Vec::new();
    let status = codec.refuse(&error, &mut refusal);
    response::ended(status, &error.into(), refusal)
}
