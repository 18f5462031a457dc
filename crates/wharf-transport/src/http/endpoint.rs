//! Messages that stand alone: all modern ones, and legacy ones where there are no sessions.

use std::{future::poll_fn, pin::pin};

use bytes::Bytes;
use tokio::time::timeout;
use wharf_model::{Exchange, Request, Scope};
use wharf_wire::{Codec, Heads, Received};

use super::{
    HttpBody, Streaming,
    body::Source,
    heads::Accept,
    respond::{self, Reply},
    service::Site,
    stream::{BatchStream, CallStream},
};
use crate::Replies;

/// How the client reads its reply.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// As one message, whatever the call sends before its end.
    Json,
    /// As events, whether the call sends anything before its end or not.
    Events,
    /// As events from the first message on that the call sends before its end.
    Smart,
}

impl Site {
    /// Answers a message that stands alone.
    pub(crate) async fn answer(
        &self,
        message: Bytes,
        heads: &Heads<'_>,
        accept: Accept,
        scope: Scope,
    ) -> Reply {
        match self.host.wire.receive_http(message, heads) {
            Received::Call(mut request, codec) => {
                request.scope = scope;
                self.call(request, codec, accept).await
            }
            Received::Reply(reply, status) => respond::json(status, reply),
            Received::Batch(members) => self.batch(members, accept, scope).await,
            Received::Answer(..) | Received::Cancel(_) | Received::Ignore => respond::status(202),
        }
    }

    fn form(&self, accept: Accept, listen: bool) -> Form {
        match (accept, self.http.streaming) {
            (_, Streaming::Never) => Form::Json,
            (Accept { json: false, .. }, _) => Form::Events,
            (Accept { events: false, .. }, _) => Form::Json,
            (_, Streaming::Smart) => Form::Smart,
            _ if listen => Form::Smart,
            _ => Form::Json,
        }
    }

    async fn call(&self, request: Request, codec: Codec, accept: Accept) -> Reply {
        let form = self.form(accept, codec.is_listen());
        if form == Form::Json && codec.is_listen() {
            return respond::refuse(406, "A listen is a stream: accept text/event-stream");
        }
        let host = &self.host;
        let exchange = Exchange::start(&*host.service, request, host.timer.clone(), host.deadlines);
        let mut call = CallStream::new(exchange, codec, &self.shutdown);
        let silent = match form {
            Form::Json => Some(poll_fn(|cx| call.poll_end(cx)).await),
            Form::Events | Form::Smart => self.silent(&mut call).await,
        };
        if let Some(outcome) = silent {
            let mut reply = Vec::new();
            let status = call.codec().encode(&outcome, &mut reply);
            // A status can be told only without a stream.
            if form != Form::Events || status != 200 {
                return respond::ended(status, &outcome, reply);
            }
            call.end_with(&reply);
        }
        respond::events(HttpBody::events(Source::Call(call), self.http.limits.keep_alive))
    }

    /// How the call ended, if it did so without a word and before anybody could think it is dead.
    async fn silent(&self, call: &mut CallStream) -> Option<wharf_model::Outcome> {
        let mut silent = pin!(poll_fn(|cx| call.poll_silent(cx)));
        // Most calls end at once, and need no timer.
        if let std::task::Poll::Ready(silent) = poll_once(&mut silent).await {
            return silent;
        }
        timeout(self.http.limits.keep_alive, silent).await.unwrap_or_default()
    }

    async fn batch(&self, members: Vec<Received>, accept: Accept, scope: Scope) -> Reply {
        let mut replies = Replies::start(&self.host, Received::Batch(members), &mut |request| {
            request.scope = scope.clone();
        });
        let form = self.form(accept, false);
        let mut stream = BatchStream { replies: Replies::default(), said: Vec::new() };
        if form != Form::Events {
            // As for a single call, but for the timer: nobody sends batches any more.
            loop {
                match poll_fn(|cx| replies.poll_message(cx)).await {
                    None => return respond::status(202),
                    Some(said) if said.end => return respond::json(200, said.message),
                    Some(said) if form == Form::Smart => {
                        wharf_wire::sse::event(&mut stream.said, None, &said.message);
                        break;
                    }
                    Some(_) => {}
                }
            }
        }
        stream.replies = replies;
        respond::events(HttpBody::events(Source::Batch(stream), self.http.limits.keep_alive))
    }
}

async fn poll_once<F: Future + Unpin>(future: &mut F) -> std::task::Poll<F::Output> {
    poll_fn(|cx| std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx))).await
}
