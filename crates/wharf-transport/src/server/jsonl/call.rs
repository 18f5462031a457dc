//! A single call of a connection, from its first poll to its reply.

use std::{
    fmt,
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use wharf_model::Outcome;

use crate::{
    ServerContext, Shutdown,
    server::{
        call_driver::{CallDriver, CallStep, CallTransport},
        jsonl::{
            batch::BatchReplies,
            in_flight::InFlight,
            write_queue::{WriteQueue, yield_after},
        },
        limits::message_memory::MessageCharge,
        observed::ObservedConnection,
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
    pub(crate) observed: ObservedConnection,
}

impl ConnectionState {
    /// True if the client has sent anything since the last check; resets the flag.
    pub(crate) fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }
}

impl CallTransport for ConnectionState {
    fn in_flight(&self) -> Option<&InFlight> {
        Some(&self.in_flight)
    }

    fn close(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
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
    driver: CallDriver,
    batch: Option<Arc<BatchReplies>>,
    /// Set when the call becomes a task. Boxed, because most calls end in place.
    spawned: Option<Box<SpawnedCall>>,
}

/// State of a call that runs as its own task.
struct SpawnedCall {
    /// Its number among the calls in flight.
    number: u64,
    /// Memory of a large message, counted until the call ends.
    _charge: Option<MessageCharge>,
}

impl LineCall {
    pub(crate) fn new(
        shared: Arc<ConnectionState>,
        driver: CallDriver,
        batch: Option<Arc<BatchReplies>>,
    ) -> Self {
        LineCall { shared, driver, batch, spawned: None }
    }

    /// Polls the call in place. False if it is still pending.
    pub(crate) fn run_in_place(&mut self, out: &mut Vec<u8>) -> bool {
        // No wake-up is needed: a pending call is polled again at once by its task.
        let mut cx = Context::from_waker(Waker::noop());
        let before = out.len();
        for _ in 0..MAX_EVENTS_IN_PLACE {
            match self.driver.poll_step(&mut cx, &*self.shared, out) {
                Poll::Ready(CallStep::Ended(outcome)) => {
                    self.reply(&outcome, out);
                    return true;
                }
                Poll::Ready(_) if out.len() - before < MAX_BYTES_IN_PLACE => {}
                _ => return false,
            }
        }
        false
    }

    /// Spawns the call, whose message holds `held` bytes, as a task. A large message counts as
    /// `charge` until the call ends.
    pub(crate) fn spawn(mut self, held: usize, charge: Option<MessageCharge>) {
        let shared = self.shared.clone();
        let codec = self.driver.codec();
        let id = (!codec.is_silent()).then(|| codec.id());
        let listen = self.is_subscription();
        if listen {
            // Other calls get the graceful shutdown timeout from the supervisor of the connection.
            self.driver.end_early(&shared.closing, Duration::ZERO, None);
        }
        shared.in_flight.insert(id, listen, held, |number| {
            self.spawned = Some(Box::new(SpawnedCall { number, _charge: charge }));
            self.driver.set_number(number);
            tokio::spawn(self.run()).abort_handle()
        });
    }

    async fn run(mut self) {
        let mut out = Vec::new();
        loop {
            let step = poll_fn(|cx| self.driver.poll_step(cx, &*self.shared, &mut out)).await;
            let done = match step {
                CallStep::Cancelled => return,
                CallStep::Ended(outcome) => {
                    self.reply(&outcome, &mut out);
                    true
                }
                _ => false,
            };
            let length = out.len();
            // The call is not polled again before the queue has room (back-pressure on its
            // handler).
            self.shared.output.send(&mut out).await;
            if done {
                return self.release_batch();
            }
            yield_after(length).await;
        }
    }

    /// Returns true for a subscription.
    pub(crate) fn is_subscription(&self) -> bool {
        self.driver.is_subscription()
    }

    /// Gives up the call's share of its batch, after its own output: with the last one, the replies are sent.
    fn release_batch(&mut self) {
        if let Some(batch) = self.batch.take() {
            batch.release();
        }
    }

    /// Ends the call with its reply, after its open client requests.
    fn reply(&mut self, outcome: &Outcome, out: &mut Vec<u8>) {
        while self.driver.withdraw_next(&*self.shared, out) {}
        let codec = self.driver.codec();
        if codec.is_silent() {
            return;
        }
        if let Some(batch) = &self.batch {
            let mut reply = Vec::new();
            codec.encode(outcome, &mut reply);
            return batch.add(&reply);
        }
        codec.encode(outcome, out);
        out.push(b'\n');
        // A subscription that failed needs no final message.
        let ended = matches!(outcome, Outcome::Complete(_));
        if ended && codec.is_listen() && codec.write_listen_end(out) {
            out.push(b'\n');
        }
    }
}

/// A call that is dropped before its end withdraws its open requests to the client; one that a shutdown cuts off is
/// answered. Its slot among the calls in flight is released however it ends.
impl Drop for LineCall {
    fn drop(&mut self) {
        // Most calls end in place and have neither.
        if self.spawned.is_some() || self.driver.has_client_requests() {
            self.clean_up();
        }
    }
}

impl LineCall {
    #[cold]
    fn clean_up(&mut self) {
        let mut out = Vec::new();
        while self.driver.withdraw_next(&*self.shared, &mut out) {}
        if let Some(outcome) = self.driver.outcome_of_drop(&self.shared.in_flight) {
            self.reply(&outcome, &mut out);
        }
        if !out.is_empty() {
            self.shared.output.push(&out);
        }
        // Before the connection sees that no calls are left: this may be the last member of the batch.
        self.release_batch();
        if let Some(spawned) = &self.spawned {
            self.shared.in_flight.remove(spawned.number);
        }
    }
}
