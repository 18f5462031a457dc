//! One call of one connection, from its first poll to its reply.

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
            batch::Batch,
            client_requests::OpenClientRequests,
            in_flight::Flight,
            write_queue::{Output, give_way, make_room},
        },
        limits::message_memory::Taken,
    },
    shutdown::shutting_down,
};

/// How much a call may say before it has to make room for the next message.
const EVENTS_IN_PLACE: usize = 64;
const BYTES_IN_PLACE: usize = 32 << 10;

/// What the reader, the writer and the calls of one connection share.
pub(crate) struct Shared {
    pub(crate) host: Arc<ServerContext>,
    pub(crate) output: Output,
    pub(crate) flight: Flight,
    /// Set when nothing more is read.
    pub(crate) closing: Shutdown,
    /// Whether the client has sent anything since somebody looked.
    pub(crate) used: AtomicBool,
}

impl Shared {
    /// Whether the client has sent anything since the last look.
    pub(crate) fn was_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("flight", &self.flight).finish_non_exhaustive()
    }
}

/// One call under way.
pub(crate) struct Call {
    shared: Arc<Shared>,
    exchange: ActiveCall,
    codec: Codec,
    batch: Option<Arc<Batch>>,
    asks: OpenClientRequests,
    /// Set when the call becomes a task. Boxed, because most calls end where they began.
    launched: Option<Box<Launched>>,
}

/// State of a call that runs as a task of its own.
struct Launched {
    /// Its number among the calls in flight.
    number: u64,
    /// Whether its reply is still to be written.
    owes: bool,
    /// Memory of a large message, counted until the call ends.
    _taken: Option<Taken>,
}

impl Call {
    pub(crate) fn start(
        shared: Arc<Shared>,
        request: Request,
        codec: Codec,
        batch: Option<Arc<Batch>>,
    ) -> Self {
        let host = &shared.host;
        let exchange =
            ActiveCall::start(&*host.service, request, host.timer.clone(), host.deadlines);
        Call { shared, exchange, codec, batch, asks: OpenClientRequests::default(), launched: None }
    }

    /// Polls the call where it is. False if it goes on.
    pub(crate) fn run_in_place(&mut self, out: &mut Vec<u8>) -> bool {
        // Nobody need be woken: a call that goes on is polled again at once, by its task.
        let mut cx = Context::from_waker(Waker::noop());
        let before = out.len();
        for _ in 0..EVENTS_IN_PLACE {
            match self.exchange.poll_event(&mut cx) {
                Poll::Ready(event) => {
                    if self.write(event, out) {
                        return true;
                    }
                    if out.len() - before >= BYTES_IN_PLACE {
                        return false;
                    }
                }
                Poll::Pending => return false,
            }
        }
        false
    }

    /// Hands the call, which keeps `held` bytes of its message, to the runtime. A large message counts as `taken` until
    /// the call ends.
    pub(crate) fn launch(mut self, held: usize, taken: Option<Taken>) {
        let shared = self.shared.clone();
        let id = (!self.codec.is_silent()).then(|| self.codec.id());
        let listen = self.is_listen();
        shared.flight.board(id, listen, held, |number| {
            self.launched = Some(Box::new(Launched { number, owes: true, _taken: taken }));
            tokio::spawn(self.run(number)).abort_handle()
        });
    }

    async fn run(mut self, number: u64) {
        let mut out = Vec::new();
        loop {
            let event = self.next().await;
            if matches!(event, Event::Done(_)) {
                self.replied();
                if !self.shared.flight.land(number) {
                    return;
                }
            }
            let done = self.write(event, &mut out);
            let length = out.len();
            // The call is not polled again before there is room, which holds its handler back.
            self.shared.output.send(&mut out).await;
            if done {
                return;
            }
            give_way(length).await;
        }
    }

    /// Notes that the reply is about to be written.
    fn replied(&mut self) {
        if let Some(launched) = &mut self.launched {
            launched.owes = false;
        }
    }

    async fn next(&mut self) -> Event {
        let listen = self.is_listen();
        let event = poll_fn(|cx| self.exchange.poll_event(cx));
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

    /// Writes what `event` says to the client. True if it was the last.
    fn write(&mut self, event: Event, out: &mut Vec<u8>) -> bool {
        match event {
            Event::Notify(notification) => {
                make_room(out, &notification);
                if self.codec.notify(&notification, out) {
                    out.push(b'\n');
                }
            }
            Event::ClientRequest(id, ask) => {
                let (flight, answers) = (&self.shared.flight, self.exchange.answers());
                if self.asks.put(flight, answers, &self.codec, id, &ask, out) {
                    out.push(b'\n');
                }
            }
            Event::Withdraw(id) => {
                let number = self.asks.close(&self.shared.flight, id);
                self.withdraw(number, out);
            }
            Event::LetGo => {}
            Event::Done(outcome) => {
                if !self.asks.is_empty() {
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
        // What never began to be heard needs no farewell.
        let ended = matches!(outcome, Outcome::Complete(_));
        if ended && self.codec.is_listen() && self.codec.farewell(out) {
            out.push(b'\n');
        }
    }

    fn withdraw_all(&mut self, out: &mut Vec<u8>) {
        let numbers = self.asks.close_all(&self.shared.flight);
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
impl Drop for Call {
    fn drop(&mut self) {
        // Most calls end in place: they have neither.
        if self.launched.is_some() || !self.asks.is_empty() {
            self.leave();
        }
    }
}

impl Call {
    #[cold]
    fn leave(&mut self) {
        let mut out = Vec::new();
        if !self.asks.is_empty() {
            self.withdraw_all(&mut out);
        }
        let flight = &self.shared.flight;
        let is_cut = |it: &Launched| it.owes && flight.is_cut() && flight.land(it.number);
        if self.launched.as_deref().is_some_and(is_cut) {
            self.reply(&shutting_down().into(), &mut out);
        }
        if !out.is_empty() {
            self.shared.output.push(&out);
        }
        // The last member of a batch sends the replies of all, before the connection sees that all is said.
        drop(self.batch.take());
        if let Some(launched) = &self.launched {
            self.shared.flight.leave(launched.number);
        }
    }
}
