//! Messages that stand alone: all modern ones, and legacy ones where there are no sessions.

use std::{
    future::poll_fn,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use tokio::time::timeout;
use wharf_model::{ActiveCall, Method, Outcome, Request, RequestExtensions};
use wharf_wire::{Codec, HeaderField, McpHeaders, Received};

use crate::MessageReplies;
use crate::server::http::{
    HttpBody, Streaming,
    auth::AuthExpiry,
    call_stream::{BatchStream, CallStream},
    request_headers::AcceptHeader,
    response,
    response::{EventualResponse, HttpResponse},
    response_body::EventSource,
    service::HttpEndpoint,
};

/// How the client reads its reply.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ResponseForm {
    /// As one message, whatever the call sends before its end.
    Json,
    /// As events, whether the call sends anything before its end or not.
    Events,
    /// As events from the first message on that the call sends before its end.
    Smart,
}

impl ResponseForm {
    /// How the call ended, if it did so without a word, or without one that the client reads.
    fn poll(self, call: &mut CallStream, cx: &mut Context<'_>) -> Poll<Option<Outcome>> {
        match self {
            ResponseForm::Json => call.poll_end(cx).map(Some),
            ResponseForm::Events | ResponseForm::Smart => call.poll_until_output(cx),
        }
    }
}

impl HttpEndpoint {
    /// Answers a message that stands alone.
    pub(crate) fn answer(
        &self,
        message: Bytes,
        heads: &McpHeaders<'_>,
        accept: AcceptHeader,
        scope: RequestExtensions,
    ) -> EventualResponse<'_> {
        // A listen keeps its message for as long as it lives, and with it the whole buffer that it was read into.
        let message = match heads.method == HeaderField::One(Method::Listen.name().as_bytes()) {
            true => Bytes::copy_from_slice(&message),
            false => message,
        };
        EventualResponse::Now(match self.context.wire.receive_http(message, heads) {
            Received::Call(mut request, codec) => {
                request.scope = scope;
                return self.call(request, codec, accept);
            }
            Received::Batch(members) => {
                return EventualResponse::later(self.batch(members, accept, scope));
            }
            Received::Reply(reply, status) => response::json(status, reply),
            Received::Answer(..) | Received::Cancel(_) | Received::Ignore => response::status(202),
        })
    }

    fn form(&self, accept: AcceptHeader, listen: bool) -> ResponseForm {
        match (accept, self.http.streaming) {
            (_, Streaming::Never) => ResponseForm::Json,
            (AcceptHeader { json: false, .. }, _) => ResponseForm::Events,
            (AcceptHeader { events: false, .. }, _) => ResponseForm::Json,
            (_, Streaming::Smart) => ResponseForm::Smart,
            _ if listen => ResponseForm::Smart,
            _ => ResponseForm::Json,
        }
    }

    fn call(&self, request: Request, codec: Codec, accept: AcceptHeader) -> EventualResponse<'_> {
        let form = self.form(accept, codec.is_listen());
        if form == ResponseForm::Json && codec.is_listen() {
            let problem = "A listen is a stream: accept text/event-stream";
            return EventualResponse::Now(response::refuse(406, problem));
        }
        let (context, until) = (&self.context, request.scope.get::<AuthExpiry>().copied());
        let active_call =
            ActiveCall::start(&*context.service, request, context.timer.clone(), context.deadlines);
        let mut call = CallStream::new(active_call, codec, &self.shutdown, until);
        // Most calls end at once. Nobody need be woken: one that goes on is polled again at once.
        match form.poll(&mut call, &mut Context::from_waker(Waker::noop())) {
            Poll::Ready(silent) => EventualResponse::Now(self.begin(call, form, silent)),
            Poll::Pending => EventualResponse::later(async move {
                call.end_after_grace(&self.shutdown, self.http.limits.grace);
                let first = poll_fn(|cx| form.poll(&mut call, cx));
                let silent = match form {
                    ResponseForm::Json => first.await,
                    // Before anybody could think that it is dead.
                    _ => timeout(self.http.limits.keep_alive, first).await.unwrap_or_default(),
                };
                self.begin(call, form, silent)
            }),
        }
    }

    /// Answers with how the call ended, if it did so without a word, else with what it says.
    fn begin(
        &self,
        mut call: CallStream,
        form: ResponseForm,
        silent: Option<Outcome>,
    ) -> HttpResponse {
        if let Some(outcome) = silent {
            let mut reply = Vec::new();
            let status = call.codec().encode(&outcome, &mut reply);
            // A status can be told only without a stream.
            if form != ResponseForm::Events || status != 200 {
                return response::ended(status, &outcome, reply);
            }
            call.end_with(&reply);
        } else {
            call.end_after_grace(&self.shutdown, self.http.limits.grace);
        }
        response::events(HttpBody::events(EventSource::Call(call), self.http.limits.keep_alive))
    }

    async fn batch(
        &self,
        members: Vec<Received>,
        accept: AcceptHeader,
        scope: RequestExtensions,
    ) -> HttpResponse {
        let replies =
            MessageReplies::start(&self.context, Received::Batch(members), &mut |request| {
                request.scope = scope.clone();
            });
        let form = self.form(accept, false);
        let after_grace = Box::pin(self.shutdown.after_grace(self.http.limits.grace));
        let mut stream = BatchStream { replies, pending: Vec::new(), after_grace };
        if form != ResponseForm::Events {
            // As for a single call, but for the timer: nobody sends batches any more.
            loop {
                match poll_fn(|cx| stream.poll_message(cx)).await {
                    None => return response::status(202),
                    Some(reply) if reply.end => return response::json(200, reply.message),
                    Some(reply) if form == ResponseForm::Smart => {
                        wharf_wire::sse::event(&mut stream.pending, None, &reply.message);
                        break;
                    }
                    Some(_) => {}
                }
            }
        }
        response::events(HttpBody::events(EventSource::Batch(stream), self.http.limits.keep_alive))
    }
}
