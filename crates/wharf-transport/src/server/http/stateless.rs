//! Requests without a session: all of modern revisions, and legacy ones where sessions are off.

use std::{
    future::poll_fn,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use wharf_model::{Method, Outcome, Request, RequestExtensions};
use wharf_wire::{Codec, HeaderField, McpHeaders, Received};

use crate::server::http::{
    HttpBody,
    auth::AuthExpiry,
    request_checks,
    request_headers::AcceptHeader,
    response,
    response::{EventualResponse, HttpResponse},
    response_body::EventSource,
    response_form::ResponseForm,
    service::HttpEndpoint,
    stateless_stream::{BatchStream, CallStream},
};
use crate::{
    MessageReplies,
    server::{call_driver::CallDriver, observed::ObservedPeer},
};

impl HttpEndpoint {
    /// Handles a message without a session.
    pub(crate) fn answer(
        &self,
        message: Bytes,
        heads: &McpHeaders<'_>,
        accept: AcceptHeader,
        scope: RequestExtensions,
    ) -> EventualResponse<'_> {
        // A subscription keeps its message while it lives, so it gets a copy instead of the whole read buffer.
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
                let peer = ObservedPeer::new(&self.context, &scope);
                peer.refused_members(&members);
                return EventualResponse::later(self.batch(members, accept, scope));
            }
            Received::Reply(reply, status, refused) => response::replied(status, reply, refused),
            Received::Notify(mut request) => {
                request.scope = scope;
                // Without a session it ends with the server.
                if let Some(pending) = self.context.start_notification(request) {
                    self.tasks.spawn(pending);
                }
                response::status(202)
            }
            Received::Answer(..) | Received::Cancel(_) | Received::Ignore => response::status(202),
        })
    }

    fn call(&self, request: Request, codec: Codec, accept: AcceptHeader) -> EventualResponse<'_> {
        let form = ResponseForm::without_session(accept, self.http.streaming, codec.is_listen());
        if form.is_reply_only() && codec.is_listen() {
            return EventualResponse::Now(request_checks::no_stream_for_listen());
        }
        let (context, until) = (&self.context, request.scope.get::<AuthExpiry>().copied());
        let quiet = form.is_reply_only();
        let mut call = CallStream::new(CallDriver::start(context, request, codec, quiet));
        // Most calls end with the first poll. A waker is not needed: a pending call is polled again at once.
        match call.poll_until_output(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(silent @ Some(_)) => EventualResponse::Now(self.begin(call, form, silent)),
            Poll::Ready(None) => {
                call.end_early(&self.shutdown, context, until);
                EventualResponse::Now(self.begin(call, form, None))
            }
            Poll::Pending => EventualResponse::later(async move {
                call.end_early(&self.shutdown, context, until);
                let first = poll_fn(|cx| call.poll_until_output(cx));
                let keep_alive = self.context.http_limits.keep_alive;
                let silent = form.first_message(keep_alive, first).await.flatten();
                self.begin(call, form, silent)
            }),
        }
    }

    /// Responds with the outcome if there is one, else with a stream.
    fn begin(
        &self,
        mut call: CallStream,
        form: ResponseForm,
        silent: Option<Outcome>,
    ) -> HttpResponse {
        if let Some(outcome) = silent {
            let mut reply = Vec::new();
            let status = call.codec().encode(&outcome, &mut reply);
            if form.is_json_for(status) {
                return response::ended(status, &outcome, reply);
            }
            call.end_with(&reply);
        }
        response::events(HttpBody::events(
            EventSource::Call(call),
            self.context.http_limits.keep_alive,
        ))
    }

    async fn batch(
        &self,
        members: Vec<Received>,
        accept: AcceptHeader,
        scope: RequestExtensions,
    ) -> HttpResponse {
        let mut replies =
            MessageReplies::start(&self.context, Received::Batch(members), &mut |request| {
                request.scope = scope.clone();
            });
        for pending in replies.take_notifications() {
            self.tasks.spawn(pending);
        }
        let form = ResponseForm::without_session(accept, self.http.streaming, false);
        replies.end_early(&self.shutdown, self.context.http_limits.grace);
        let mut stream = BatchStream { replies, pending: Vec::new() };
        if form != ResponseForm::Events {
            // As for a single call, but without the timer, because batches are hardly used.
            loop {
                match poll_fn(|cx| stream.replies.poll_message(cx)).await {
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
        response::events(HttpBody::events(
            EventSource::Batch(stream),
            self.context.http_limits.keep_alive,
        ))
    }
}
