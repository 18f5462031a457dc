//! A single call of a connection, from its first poll to its reply.

use std::{
    fmt,
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
};

use wharf_model::{ActiveCall, Event, Outcome, Reply, Request};
use wharf_wire::Codec;

use crate::{
    ServerContext, Shutdown,
    server::{
        jsonl::{
            batch::BatchReplies,
            client_requests::OpenClientRequests,
            in_flight::{InFlight, shutting_down},
            write_queue::{WriteQueue, reserve_for, yield_after},
        },
        limits::message_memory::MessageCharge,
    },
};

/// Maximum output of a call that is polled in place, before the reader continues with the next
/// message.
const MAX_EVENTS_IN_PLACE: usize = 64;
const MAX_BYTES_IN_PLACE: usize = 32 << 10;

/// State that the reader, the writer and the calls of a connection share.
pub(crate) struct ConnectionState {
    pub(crate) context: Arc<ServerContext>,
    pub(crate) output: WriteQueue,
    pub(crate) in_flight: InFlight,
    /// Stopped when no more messages are read.
    pub(crate) closing: Shutdown,
    /// True if the client has sent anything since the last check.
    pub(crate) used: AtomicBool,
}

impl ConnectionState {
    /// True if the client has sent anything since the last check; resets the flag.
    pub(crate) fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }
}

impl fmt::Debug for ConnectionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionState")
            .field("in_flight", &self.in_flight)
            .finish_non_exhaustive()
    }
}

/// A call in flight.
pub(crate) struct LineCall {
    shared: Arc<ConnectionState>,
    active_call: ActiveCall,
    codec: Codec,
    batch: Option<Arc<BatchReplies>>,
    client_requests: OpenClientRequests,
    /// Set when the call becomes a task. Boxed, because most calls end in place.
    spawned: Option<Box<SpawnedCall>>,
}

/// State of a call that runs as its own task.
struct SpawnedCall {
    /// Its number among the calls in flight.
    number: u64,
    /// True if its reply is not written yet.
    reply_pending: bool,
    /// Memory of a large message, counted until the call ends.
    _charge: Option<MessageCharge>,
}

impl LineCall {
    pub(crate) fn start(
        shared: Arc<ConnectionState>,
        request: Request,
        codec: Codec,
        batch: Option<Arc<BatchReplies>>,
    ) -> Self {
        let context = &shared.context;
        let active_call =
            ActiveCall::start(&*context.service, request, context.timer.clone(), context.deadlines);
        LineCall {
            shared,
            active_call,
            codec,
            batch,
            client_requests: OpenClientRequests::default(),
            spawned: None,
        }
    }

    /// Polls the call in place. False if it is still pending.
    pub(crate) fn run_in_place(&mut self, out: &mut Vec<u8>) -> bool {
        // No wake-up is needed: a pending call is polled again at once by its task.
        let mut cx = Context::from_waker(Waker::noop());
        let before = out.len();
        for _ in 0..MAX_EVENTS_IN_PLACE {
            match self.active_call.poll_event(&mut cx) {
                Poll::Ready(event) => {
                    if self.write(event, out) {
                        return true;
                    }
                    if out.len() - before >= MAX_BYTES_IN_PLACE {
                        return false;
                    }
                }
                Poll::Pending => return false,
            }
        }
        false
    }

    /// Spawns the call, whose message holds `held` bytes, as a task. A large message counts as
    /// `charge` until the call ends.
    pub(crate) fn spawn(mut self, held: usize, charge: Option<MessageCharge>) {
        let shared = self.shared.clone();
        let id = (!self.codec.is_silent()).then(|| self.codec.id());
        let listen = self.is_listen();
        shared.in_flight.insert(id, listen, held, |number| {
            self.spawned =
                Some(Box::new(SpawnedCall { number, reply_pending: true, _charge: charge }));
            tokio::spawn(self.run(number)).abort_handle()
        });
    }

    async fn run(mut self, number: u64) {
        let mut out = Vec::new();
        loop {
            let event = self.next().await;
            if matches!(event, Event::Done(_)) {
                self.mark_replied();
                if !self.shared.in_flight.finish(number) {
                    return;
                }
            }
            let done = self.write(event, &mut out);
            let length = out.len();
            // The call is not polled again before the queue has room (back-pressure on its
            // handler).
            self.shared.output.send(&mut out).await;
            if done {
                return;
            }
            yield_after(length).await;
        }
    }

    /// Marks the reply as written.
    fn mark_replied(&mut self) {
        if let Some(spawned) = &mut self.spawned {
            spawned.reply_pending = false;
        }
    }

    async fn next(&mut self) -> Event {
        let listen = self.is_listen();
        let event = poll_fn(|cx| self.active_call.poll_event(cx));
        if !listen {
            return event.await;
        }
        tokio::select! {
            biased;
            event = event => event,
            () = self.shared.closing.stopped() => Event::Done(Reply::Listened.into()),
        }
    }

    pub(crate) fn is_listen(&self) -> bool {
        self.codec.is_listen() || self.codec.is_silent()
    }

    /// Writes `event` to the client. True if it was the last one.
    fn write(&mut self, event: Event, out: &mut Vec<u8>) -> bool {
        match event {
            Event::Notify(notification) => {
                reserve_for(out, &notification);
                if self.codec.notify(&notification, out) {
                    out.push(b'\n');
                }
            }
            Event::ClientRequest(id, ask) => {
                let (in_flight, answers) =
                    (&self.shared.in_flight, self.active_call.response_sender());
                if self.client_requests.put(in_flight, answers, &self.codec, id, &ask, out) {
                    out.push(b'\n');
                }
            }
            Event::Withdraw(id) => {
                let number = self.client_requests.close(&self.shared.in_flight, id);
                self.withdraw(number, out);
            }
            Event::LetGo => {}
            Event::Done(outcome) => {
                if !self.client_requests.is_empty() {
                    self.withdraw_all(out);
                }
                self.reply(&outcome, out);
                return true;
            }
        }
        false
    }

    fn reply(&self, outcome: &Outcome, out: &mut Vec<u8>) {
        if self.codec.is_silent() {
            return;
        }
        if let Some(batch) = &self.batch {
            let mut reply = Vec::new();
            self.codec.encode(outcome, &mut reply);
            return batch.add(&reply);
        }
        self.codec.encode(outcome, out);
        out.push(b'\n');
        // A subscription that failed needs no final message.
        let ended = matches!(outcome, Outcome::Complete(_));
        if ended && self.codec.is_listen() && self.codec.write_listen_end(out) {
            out.push(b'\n');
        }
    }

    fn withdraw_all(&mut self, out: &mut Vec<u8>) {
        let numbers = self.client_requests.close_all(&self.shared.in_flight);
        self.withdraw(numbers, out);
    }

    fn withdraw(&self, numbers: impl IntoIterator<Item = u64>, out: &mut Vec<u8>) {
        for number in numbers {
            self.codec.withdraw(number, out);
            out.push(b'\n');
        }
    }
}

/// A call that is dropped before its end withdraws its open requests to the client; one that a shutdown cuts off is
/// answered. Its slot among the calls in flight is released however it ends.
impl Drop for LineCall {
    fn drop(&mut self) {
        // Most calls end in place and have neither.
        if self.spawned.is_some() || !self.client_requests.is_empty() {
            self.clean_up();
        }
    }
}

impl LineCall {
    #[cold]
    fn clean_up(&mut self) {
        let mut out = Vec::new();
        if !self.client_requests.is_empty() {
            self.withdraw_all(&mut out);
        }
        let in_flight = &self.shared.in_flight;
        let replies_on_abort = |it: &SpawnedCall| {
            it.reply_pending && in_flight.replies_on_abort() && in_flight.finish(it.number)
        };
        if self.spawned.as_deref().is_some_and(replies_on_abort) {
            self.reply(&shutting_down().into(), &mut out);
        }
        if !out.is_empty() {
            self.shared.output.push(&out);
        }
        // The last member of a batch sends all replies, before the connection sees that no calls
        // are left.
        drop(self.batch.take());
        if let Some(spawned) = &self.spawned {
            self.shared.in_flight.remove(spawned.number);
        }
    }
}
