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
    Sessions,
    call::{Begun, Tally},
    cluster::record::Member,
    event_log::{Ending, First},
    session::{Session, Visit},
    stream_reader::Follower,
};
use crate::server::{
    http::{
        HttpBody,
        cluster::{Away, GONE},
        request_headers::{Accept, Seen},
        response,
        response::{Due, Reply},
        response_body::Source,
    },
    jsonl::in_flight::{id_taken, no_place},
};

/// What was posted at once.
pub(super) struct Posted {
    pub(super) visit: Visit,
    pub(super) scope: RequestExtensions,
    pub(super) accept: Accept,
    pub(super) length: usize,
}

impl Sessions {
    /// Answers a message of a session.
    pub(crate) fn receive(
        &self,
        visit: Visit,
        seen: &Seen<'_>,
        message: Bytes,
        scope: RequestExtensions,
    ) -> Due<'static> {
        let (accept, length) = (seen.accept, message.len());
        // Its own statement, so that the next message can be read while this one is answered.
        let received = visit.connection().receive_http(message, &seen.message);
        self.treat(Posted { visit, scope, accept, length }, received)
    }

    /// Answers what was received in a session.
    pub(super) fn treat(&self, posted: Posted, received: Received) -> Due<'static> {
        match received {
            Received::Call(request, codec) if !codec.is_silent() => {
                self.call(posted, request, codec)
            }
            Received::Reply(reply, status) => {
                match self.listen(posted.visit.session(), &posted.scope, false) {
                    Ok(()) => posted.once_heard(posted.whole(reply, status)),
                    Err(error) => Due::Now(unheard(&error)),
                }
            }
            Received::Batch(members) => self.batch(posted, members),
            other => {
                self.note(&posted, other);
                posted.once_heard(response::status(202))
            }
        }
    }

    fn call(&self, mut posted: Posted, request: Request, codec: Codec) -> Due<'static> {
        if let Err(error) = admit(&posted.visit, &codec) {
            return Due::Now(refuse(&codec, error));
        }
        if codec.may_become_task() {
            // So that somebody hears what becomes of it; if nobody can, its owner still asks.
            let _ = self.listen(posted.visit.session(), &posted.scope, false);
        }
        let scope = std::mem::take(&mut posted.scope);
        let begun = Begun::new(&posted.visit, request, codec, scope);
        if let Some(Event::Done(outcome)) = &begun.first {
            let mut reply = Vec::new();
            let status = begun.codec.encode(outcome, &mut reply);
            if matches!(outcome, Outcome::Task(_)) {
                Member::share(posted.visit.session());
            }
            // A status can be told only without a stream.
            return Due::Now(match posted.accept.json || status != 200 {
                true => response::ended(status, outcome, reply),
                false => one_event(&posted.visit, reply),
            });
        }
        let tally = posted.tally(false);
        tally.owe(&begun.codec);
        let following = posted.follow(&tally);
        begun.go_on(&tally, posted.length, &self.tasks);
        Due::later(following)
    }

    fn batch(&self, posted: Posted, members: Vec<Received>) -> Due<'static> {
        let tally = posted.tally(true);
        let following = posted.follow(&tally);
        let mut due = false;
        for member in members {
            due |= self.member(&posted, &tally, member);
        }
        if !due {
            posted.visit.forget_stream(tally.log.number);
            return posted.once_heard(response::status(202));
        }
        tally.hold(posted.length);
        Due::later(after(posted.visit.beginning(), following))
    }

    /// Treats one member of a batch. True if a reply to it is due.
    fn member(&self, posted: &Posted, tally: &Arc<Tally>, member: Received) -> bool {
        let reply = |text: Vec<u8>| tally.add(text, Ending { status: 200, refused: None });
        match member {
            Received::Call(request, codec) if !codec.is_silent() => {
                let full = if tally.is_full() { Err(no_place()) } else { Ok(()) };
                if let Err(error) = full.and_then(|()| admit(&posted.visit, &codec)) {
                    let mut refusal = Vec::new();
                    codec.refuse(&error, &mut refusal);
                    reply(refusal);
                    return true;
                }
                let begun = Begun::new(&posted.visit, request, codec, posted.scope.clone());
                tally.owe(&begun.codec);
                if let Some(Event::Done(outcome)) = &begun.first {
                    let mut text = Vec::new();
                    begun.codec.encode(outcome, &mut text);
                    reply(text);
                } else {
                    // The tally counts the message itself: any of its calls keeps all of it.
                    begun.go_on(tally, 0, &self.tasks);
                }
            }
            Received::Reply(text, _) => {
                // What cannot begin now does so with the next message, or when it is heard.
                let _ = self.listen(posted.visit.session(), &posted.scope, false);
                reply(text);
            }
            other => {
                self.note(posted, other);
                return false;
            }
        }
        true
    }

    /// Takes note of what has no reply.
    fn note(&self, posted: &Posted, received: Received) {
        let session = posted.visit.session();
        match (received, session.under_way()) {
            (Received::Answer(number, answer), Some(calls)) => calls.answer(number, answer),
            (Received::Cancel(id), Some(calls)) => calls.cancel(&id),
            (Received::Call(request, codec), _) => match self.common.host.service.moment() {
                Some(now) => {
                    session.connection().put_off_listen(now);
                    let _ = self.listen(session, &posted.scope, session.is_heard());
                }
                None => {
                    let begun = Begun::new(session, request, codec, posted.scope.clone());
                    begun.listen(session, &self.tasks);
                }
            },
            // Batches do not nest.
            _ => {}
        }
    }

    /// Begins the session's listen if it is due: until then there is none, because most sessions
    /// that are idle are heard by nobody. Fails if it may be tried again later.
    pub(super) fn listen(
        &self,
        session: &Arc<Session>,
        scope: &RequestExtensions,
        is_heard: bool,
    ) -> Result<(), Box<Error>> {
        // Where several processes serve the session, whoever follows its stream listens.
        if session.member.is_some() {
            return Ok(());
        }
        // Held while the listen begins: a subscription that is made meanwhile must not be answered
        // before there is somebody who hears of updates.
        let mut connection = session.connection();
        let Some((request, codec)) = connection.due_listen(is_heard) else { return Ok(()) };
        let since = request.since;
        let mut begun = Begun::new(session, request, codec, scope.clone());
        match (begun.first.take(), since) {
            (Some(Event::Done(Outcome::Failed(error))), Some(since))
                if error.kind.is_retryable() =>
            {
                connection.put_off_listen(since);
                return Err(error);
            }
            (None, _) => begun.beginning = Some(session.begin_listen()),
            (first, _) => begun.first = first,
        }
        begun.listen(session, &self.tasks);
        Ok(())
    }
}

impl Posted {
    fn tally(&self, batch: bool) -> Arc<Tally> {
        Tally::new(self.visit.session(), batch, !self.accept.events)
    }

    /// Answers with a reply that is there already, once somebody hears of updates if the session's
    /// listen is on its way: it may be the reply to a subscription.
    fn once_heard(&self, reply: Reply) -> Due<'static> {
        match self.visit.beginning() {
            None => Due::Now(reply),
            beginning => Due::later(after(beginning, ready(reply))),
        }
    }

    /// Answers with a reply that is there already.
    fn whole(&self, reply: Vec<u8>, status: u16) -> Reply {
        if self.accept.json || status != 200 {
            return response::json(status, reply);
        }
        one_event(&self.visit, reply)
    }

    /// Answers with one message if the reply is all there is to say, else with events.
    fn follow(&self, tally: &Tally) -> impl Future<Output = Reply> + Send + use<> {
        let (visit, accept, log) = (self.visit.clone(), self.accept, tally.log.clone());
        let batch = tally.batch;
        // Before the call begins to run, so that it cannot run far ahead of the client.
        let follower = Follower::of(visit.clone(), log);
        async move {
            let Some(follower) = follower else { return Sessions::gone() };
            match first(&follower, accept).await {
                First::Said => kept(follower, batch).await,
                First::Nothing if visit.is_ended() => Sessions::gone(),
                First::Nothing if accept.events => response::events(HttpBody::empty()),
                First::Nothing => response::status(202),
                First::Reply(Ending { status: 200, .. }) if !accept.json => {
                    kept(follower, batch).await
                }
                First::Reply(ending) => {
                    let reply = follower.into_reply();
                    // A session that ended just now took it along.
                    if reply.is_empty() {
                        return Sessions::gone();
                    }
                    let mut reply = response::json(ending.status, reply);
                    if let Some(error) = ending.refused {
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
    reply: impl Future<Output = Reply>,
) -> Reply {
    if let Some(beginning) = beginning {
        beginning.await;
    }
    reply.await
}

/// What the stream begins with, or something if that takes so long that the client might despair.
async fn first(follower: &Follower, accept: Accept) -> First {
    let first = poll_fn(|cx| follower.poll_first(cx));
    match accept.events {
        true => timeout(follower.keep_alive(), first).await.unwrap_or(First::Said),
        false => first.await,
    }
}

/// A response that follows a stream from its beginning, once that is where others find it.
async fn kept(follower: Follower, batch: bool) -> Reply {
    match follower.keep(batch).await {
        Ok(()) => stream(follower),
        Err(Away) => response::busy(GONE),
    }
}

/// A response that follows a stream from its beginning.
pub(crate) fn stream(mut follower: Follower) -> Reply {
    follower.prime();
    events(follower)
}

/// A response that follows a stream.
pub(crate) fn events(follower: Follower) -> Reply {
    let every = follower.keep_alive();
    response::events(HttpBody::events(Source::Session(follower), every))
}

/// A stream of one reply, for a client that reads nothing but events.
pub(crate) fn one_event(visit: &Visit, reply: Vec<u8>) -> Reply {
    if visit.member.is_some() {
        // It is there whole: nobody need come back for it, to whichever process.
        let mut event = Vec::new();
        sse::event(&mut event, None, &reply);
        return response::events(HttpBody::whole(event));
    }
    let tally = Tally::new(visit.session(), false, false);
    let follower = Follower::of(visit.clone(), tally.log.clone());
    tally.add(reply, Ending { status: 200, refused: None });
    follower.map_or_else(Sessions::gone, stream)
}

/// Nobody hears for the session of what changes; the client may try again.
pub(crate) fn unheard(error: &Error) -> Reply {
    let mut reply = response::refuse(503, "Too many listen; try again later");
    response::explain(&mut reply, error);
    reply
}

/// Whether the call may begin.
fn admit(session: &Session, codec: &Codec) -> Result<(), Error> {
    let Some(flight) = session.under_way().filter(|it| !it.is_empty()) else { return Ok(()) };
    if flight.holds(codec) {
        return Err(id_taken());
    }
    let common = &session.common;
    let free = flight.calls() < common.limits.session_calls;
    if free && flight.has_memory(&common.host.limits) { Ok(()) } else { Err(no_place()) }
}

pub(crate) fn refuse(codec: &Codec, error: Error) -> Reply {
    let mut refusal = Vec::new();
    let status = codec.refuse(&error, &mut refusal);
    response::ended(status, &error.into(), refusal)
}
