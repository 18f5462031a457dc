//! Messages that stand alone: all modern ones, and legacy ones where there are no sessions.

use std::{
    future::poll_fn,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use tokio::time::timeout;
use wharf_model::{ActiveCall, Method, Outcome, Request, RequestExtensions};
use wharf_wire::{Codec, HeaderField, McpHeaders, Received};

use crate::Replies;
use crate::server::http::{
    HttpBody, Streaming,
    auth::Until,
    call_stream::{BatchStream, CallStream},
    request_headers::Accept,
    response,
    response::{Due, Reply},
    response_body::Source,
    service::Site,
};

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

impl Form {
    /// How the call ended, if it did so without a word, or without one that the client reads.
    fn poll(self, call: &mut CallStream, cx: &mut Context<'_>) -> Poll<Option<Outcome>> {
        match self {
            Form::Json => call.poll_end(cx).map(Some),
            Form::Events | Form::Smart => call.poll_silent(cx),
        }
    }
}

impl Site {
    /// Answers a message that stands alone.
    pub(crate) fn answer(
        &self,
        message: Bytes,
        heads: &McpHeaders<'_>,
        accept: Accept,
        scope: RequestExtensions,
    ) -> Due<'_> {
        // A listen keeps its message for as long as it lives, and with it the whole buffer that it was read into.
        let message = match heads.method == HeaderField::One(Method::Listen.name().as_bytes()) {
            true => Bytes::copy_from_slice(&message),
            false => message,
        };
        Due::Now(match self.host.wire.receive_http(message, heads) {
            Received::Call(mut request, codec) => {
                request.scope = scope;
                return self.call(request, codec, accept);
            }
            Received::Batch(members) => return Due::later(self.batch(members, accept, scope)),
            Received::Reply(reply, status) => response::json(status, reply),
            Received::Answer(..) | Received::Cancel(_) | Received::Ignore => response::status(202),
        })
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

    fn call(&self, request: Request, codec: Codec, accept: Accept) -> Due<'_> {
        let form = self.form(accept, codec.is_listen());
        if form == Form::Json && codec.is_listen() {
            let problem = "A listen is a stream: accept text/event-stream";
            return Due::Now(response::refuse(406, problem));
        }
        let (host, until) = (&self.host, request.scope.get::<Until>().copied());
        let exchange =
            ActiveCall::start(&*host.service, request, host.timer.clone(), host.deadlines);
        let mut call = CallStream::new(exchange, codec, &self.shutdown, until);
        // Most calls end at once. Nobody need be woken: one that goes on is polled again at once.
        match form.poll(&mut call, &mut Context::from_waker(Waker::noop())) {
            Poll::Ready(silent) => Due::Now(self.begin(call, form, silent)),
            Poll::Pending => Due::later(async move {
                call.cut_after(&self.shutdown, self.http.limits.grace);
                let first = poll_fn(|cx| form.poll(&mut call, cx));
                let silent = match form {
                    Form::Json => first.await,
                    // Before anybody could think that it is dead.
                    _ => timeout(self.http.limits.keep_alive, first).await.unwrap_or_default(),
                };
                self.begin(call, form, silent)
            }),
        }
    }

    /// Answers with how the call ended, if it did so without a word, else with what it says.
    fn begin(&self, mut call: CallStream, form: Form, silent: Option<Outcome>) -> Reply {
        if let Some(outcome) = silent {
            let mut reply = Vec::new();
            let status = call.codec().encode(&outcome, &mut reply);
            // A status can be told only without a stream.
            if form != Form::Events || status != 200 {
                return response::ended(status, &outcome, reply);
            }
            call.end_with(&reply);
        } else {
            call.cut_after(&self.shutdown, self.http.limits.grace);
        }
        response::events(HttpBody::events(Source::Call(call), self.http.limits.keep_alive))
    }

    async fn batch(
        &self,
        members: Vec<Received>,
        accept: Accept,
        scope: RequestExtensions,
    ) -> Reply {
        let replies = Replies::start(&self.host, Received::Batch(members), &mut |request| {
            request.scope = scope.clone();
        });
        let form = self.form(accept, false);
        let cuts = Box::pin(self.shutdown.cuts(self.http.limits.grace));
        let mut stream = BatchStream { replies, said: Vec::new(), cuts };
        if form != Form::Events {
            // As for a single call, but for the timer: nobody sends batches any more.
            loop {
                match poll_fn(|cx| stream.poll_message(cx)).await {
                    None => return response::status(202),
                    Some(said) if said.end => return response::json(200, said.message),
                    Some(said) if form == Form::Smart => {
                        wharf_wire::sse::event(&mut stream.said, None, &said.message);
                        break;
                    }
                    Some(_) => {}
                }
            }
        }
        response::events(HttpBody::events(Source::Batch(stream), self.http.limits.keep_alive))
    }
}
