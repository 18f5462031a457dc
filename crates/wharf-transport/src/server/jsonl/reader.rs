//! Reading from the client, and answering what can be answered at once.

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    mem,
    pin::pin,
    sync::{Arc, atomic::Ordering},
    task::Poll,
    time::Duration,
};

use bytes::{BufMut, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite},
    time::{Instant, timeout},
};
use wharf_model::{BudgetFull, Caller, Error, ErrorKind, Method, Request, RequestExtensions};
use wharf_wire::{Codec, Connection, Line, Lines, Received};

use crate::server::{
    jsonl::{
        batch::BatchReplies,
        call::{ConnectionState, LineCall},
        in_flight::{duplicate_id, overloaded},
        writer::{SharedWriter, write_queued},
    },
    limits::message_memory::{MIN_BYTES_PER_SECOND, MessageBudget, MessageCharge, PartialCharge},
};

/// How much is read at once.
const READ_CHUNK_BYTES: usize = 64 << 10;
/// How little room is left in a buffer when another is taken. A call under way keeps its buffer, so
/// many of them should share one.
const MIN_BUFFER_ROOM_BYTES: usize = 4 << 10;
/// How much output may gather before it is written although there is more to read. With one more
/// reply it still fits into a pipe at once.
const FLUSH_BYTES: usize = 60 << 10;
/// How many messages are read at most before the first of them is answered. Together, the code that
/// reads and the code that answers do not fit into the fastest cache of a core: they take turns.
const MAX_READ_AHEAD: usize = 8;
/// Calls that hold the reader up for longer than this do not hold their replies back too.
const SLOW_CALL: Duration = Duration::from_millis(5);

/// The half of a connection that reads, and answers what can be answered at once.
pub(crate) struct LineReader<W> {
    shared: Arc<ConnectionState>,
    scope: RequestExtensions,
    connection: Connection,
    lines: Lines,
    /// Whether nothing has been read yet.
    first_line: bool,
    rejected_http: bool,
    /// How long the message at hand is.
    length: usize,
    sink: Arc<SharedWriter<W>>,
    out: Vec<u8>,
    /// What is read and not answered, each message with its length; empty between two reads.
    ahead: VecDeque<(Received, usize)>,
    /// How many messages to read ahead: one after the other where calls take long, lest they hold
    /// back each other's replies.
    read_ahead_limit: usize,
    /// Whether little is read at once, because a long message has just been read: the room for the next one would be
    /// cut from the memory of that one, which could not be given back then.
    small_reads: bool,
    /// What messages may take that have not ended; over stdio they may take what they like.
    budget: Option<Arc<MessageBudget>>,
    /// The message that has begun to come, if any.
    partial: Option<Box<PartialLine>>,
    /// What the message at hand takes, if it is a large one.
    charge: Option<MessageCharge>,
}

/// How far a message has come that has not ended.
#[derive(Default)]
struct PartialLine {
    /// For how long it may still be waited for its next bytes. None before it was waited for at all.
    left: Option<Duration>,
    charge: Option<PartialCharge>,
}

impl<W: AsyncWrite + Unpin> LineReader<W> {
    pub(crate) fn new(
        shared: Arc<ConnectionState>,
        scope: RequestExtensions,
        sink: Arc<SharedWriter<W>>,
    ) -> Self {
        LineReader {
            connection: Connection::new(shared.context.wire.clone()),
            lines: Lines::new(shared.context.limits.message),
            shared,
            scope: scope.shared(),
            first_line: true,
            rejected_http: false,
            length: 0,
            sink,
            out: Vec::with_capacity(READ_CHUNK_BYTES),
            ahead: VecDeque::new(),
            read_ahead_limit: 1,
            small_reads: false,
            budget: None,
            partial: None,
            charge: None,
        }
    }

    /// Lets messages take no more time and room than limits grant.
    pub(crate) fn with_budget(mut self, budget: Arc<MessageBudget>) -> Self {
        self.budget = Some(budget);
        self
    }

    pub(crate) async fn run(mut self, mut reader: impl AsyncRead + Unpin) {
        let shared = self.shared.clone();
        let mut closing = pin!(shared.closing.stopped());
        loop {
            let read_timeout = self.read_timeout();
            let buffer = self.lines.buffer();
            if buffer.capacity() - buffer.len() < MIN_BUFFER_ROOM_BYTES {
                buffer.reserve(if self.small_reads {
                    MIN_BUFFER_ROOM_BYTES
                } else {
                    READ_CHUNK_BYTES
                });
            }
            let mut room = buffer.limit(READ_CHUNK_BYTES);
            let read = poll_fn(|cx| match pin!(reader.read_buf(&mut room)).poll(cx) {
                Poll::Pending => closing.as_mut().poll(cx).map(|()| None),
                read => read.map(Some),
            });
            let read = match read_timeout {
                None => read.await,
                Some(read_timeout) => {
                    let began = Instant::now();
                    let Ok(read) = timeout(read_timeout, read).await else {
                        return self.too_slow().await;
                    };
                    let left = read_timeout.saturating_sub(began.elapsed());
                    self.partial.get_or_insert_default().left = Some(left);
                    read
                }
            };
            let Some(read) = read else { return };
            // A client that is gone without a word is no different from one that closed its end.
            let size = read.unwrap_or(0);
            // A client that sends much at once gets more room again.
            self.small_reads &= size < MIN_BUFFER_ROOM_BYTES;
            let ended = size == 0;
            if read_timeout.is_some() {
                self.extend_timeout(size);
            }
            shared.in_flight.set_reading(true);
            shared.used.store(true, Ordering::Relaxed);
            let closed = shared.closing.is_stopped();
            if !closed {
                self.drain(ended).await;
            }
            shared.in_flight.set_reading(false);
            if closed || ended || self.rejected_http {
                return;
            }
        }
    }

    /// How long the next bytes may take of a message that has begun to come.
    fn read_timeout(&self) -> Option<Duration> {
        self.budget.as_ref()?;
        if self.lines.is_between() {
            return None;
        }
        let left = self.partial.as_ref().and_then(|partial| partial.left);
        Some(left.unwrap_or(self.shared.context.limits.arrival))
    }

    /// Grants a message more time for the `size` bytes of it that came, but never more than it had at first: one that
    /// came fast and then stops does not stay for longer.
    fn extend_timeout(&mut self, size: usize) {
        if let Some(left) = self.partial.as_mut().and_then(|partial| partial.left.as_mut()) {
            let more = Duration::from_millis(size as u64 * 1000 / MIN_BYTES_PER_SECOND);
            *left = left.saturating_add(more).min(self.shared.context.limits.arrival);
        }
    }

    /// Counts what has come of a message that has not ended. If there is no room for it, it is dropped.
    async fn count_partial(&mut self) {
        let Some(budget) = &self.budget else { return };
        let length = self.lines.buffer().len();
        if length <= MIN_BUFFER_ROOM_BYTES {
            return;
        }
        let partial = self.partial.get_or_insert_default();
        let counted = match &mut partial.charge {
            Some(charge) => charge.grow_to(length, &self.scope),
            None => PartialCharge::new(budget, length, &self.scope)
                .map(|charge| partial.charge = Some(charge)),
        };
        match counted {
            // Read alone when it ends: what it takes is for its own call, not for one behind it.
            Ok(()) => self.read_ahead_limit = 1,
            Err(BudgetFull) => {
                partial.charge = None;
                self.lines.abandon();
                self.refuse(&no_memory()).await;
            }
        }
    }

    /// Says why a message is not read of which nothing is known.
    async fn refuse(&mut self, error: &Error) {
        if let Received::Reply(reply, _) = self.connection.refuse(error) {
            self.reply(&reply, None);
        }
        self.flush().await;
    }

    async fn too_slow(&mut self) {
        let read_timeout = self.shared.context.limits.arrival;
        let problem = format!(
            "The message took too long to come: send it whole within {read_timeout:?} and what it needs \
             at 64 KiB a second"
        );
        self.refuse(&Error::new(ErrorKind::InvalidRequest).with_message(problem)).await;
    }

    /// Works on every line there is, then writes what came of it.
    async fn drain(&mut self, ended: bool) {
        while self.read_ahead(ended) {
            // Large messages are the first to end with what was just read.
            if let Some(partial) = self.partial.take() {
                self.charge = partial.charge.map(PartialCharge::complete);
            }
            // The last reply is held back by nothing.
            let more = self.ahead.len() > 1 || !self.lines.buffer().is_empty();
            let (mut began, mut quick) = (more.then(Instant::now), true);
            while let Some((received, length)) = self.ahead.pop_front() {
                self.length = length;
                match received {
                    // Most calls end where they are, and are not worth a future.
                    Received::Call(request, codec) if has_capacity(&self.shared, &codec) => {
                        let before = self.out.len();
                        if let Some(call) = self.start(request, codec, None) {
                            self.spawn(call, before, length).await;
                        }
                    }
                    received => self.handle_message(received).await,
                }
                if self.out.len() >= FLUSH_BYTES {
                    self.flush().await;
                }
                // Its reply must not wait for the calls behind it, which may take as long.
                if began.as_mut().is_some_and(took_long) {
                    quick = false;
                    self.flush().await;
                }
            }
            if more {
                self.read_ahead_limit =
                    if quick { MAX_READ_AHEAD.min(2 * self.read_ahead_limit) } else { 1 };
            }
            self.charge = None;
        }
        self.flush().await;
        if !self.lines.buffer().is_empty() {
            self.count_partial().await;
        }
    }

    /// Reads the next few messages. False if there is none.
    fn read_ahead(&mut self, ended: bool) -> bool {
        while self.ahead.len() < self.read_ahead_limit
            && let Some(line) = self.next_line(ended)
        {
            let (received, length) = match line {
                Line::Message(message) if self.is_http(&message) => break,
                Line::Message(message) => {
                    let length = message.len();
                    (self.connection.receive(message), length)
                }
                Line::TooLong => (self.connection.too_long(), 0),
            };
            // How the next message is read may depend on anything else, or on its answer.
            let call = matches!(&received, Received::Call(it, _) if it.method != Method::Discover);
            if !call && matches!(received, Received::Call(..)) {
                self.connection.count_as(&Caller::of(&self.scope));
            }
            self.ahead.push_back((received, length));
            if !call {
                break;
            }
        }
        !self.ahead.is_empty()
    }

    fn next_line(&mut self, ended: bool) -> Option<Line> {
        let line = self.lines.next();
        if let Some(Line::Message(message)) = &line
            && message.len() > READ_CHUNK_BYTES
        {
            // What follows must not keep the buffer of a long line, nor an idle client any.
            let buffer = self.lines.buffer();
            *buffer = BytesMut::from(&buffer[..]);
            self.small_reads = true;
        }
        if ended && line.is_none() {
            return self.lines.finish();
        }
        line
    }

    /// Hangs up on a client that opens with an HTTP request: a web page can make a browser send
    /// one here, with messages in its body.
    fn is_http(&mut self, first: &[u8]) -> bool {
        if !mem::take(&mut self.first_line) {
            return false;
        }
        self.rejected_http = first.ends_with(b" HTTP/1.1") || first.ends_with(b" HTTP/1.0");
        self.rejected_http
    }

    async fn handle_message(&mut self, received: Received) {
        match received {
            Received::Batch(members) => {
                let batch = BatchReplies::new(self.shared.clone(), self.charge.take());
                for member in members {
                    self.handle_received(member, Some(&batch)).await;
                }
                batch.hold(self.length);
                // What the members have said goes out before their replies.
                self.flush().await;
                drop(batch);
                self.shared.output.wait_for_room().await;
            }
            received => self.handle_received(received, None).await,
        }
    }

    async fn handle_received(&mut self, received: Received, batch: Option<&Arc<BatchReplies>>) {
        match received {
            Received::Call(request, codec) => self.call(request, codec, batch).await,
            Received::Reply(reply, _) => self.reply(&reply, batch),
            Received::Answer(number, answer) => self.shared.in_flight.answer(number, answer),
            Received::Cancel(id) => {
                self.shared.in_flight.cancel(&id);
                // A call that is dropped takes its questions back, however full the output is.
                self.shared.output.wait_for_room().await;
            }
            // Batches do not nest.
            Received::Batch(_) | Received::Ignore => {}
        }
    }

    fn reply(&mut self, reply: &[u8], batch: Option<&Arc<BatchReplies>>) {
        match batch {
            Some(batch) => batch.add(reply),
            None => {
                self.out.extend_from_slice(reply);
                self.out.push(b'\n');
            }
        }
    }

    async fn call(&mut self, request: Request, codec: Codec, batch: Option<&Arc<BatchReplies>>) {
        if let Err(error) = admit(&self.shared, &codec, batch).await {
            let mut refusal = Vec::new();
            codec.refuse(&error, &mut refusal);
            return self.reply(&refusal, batch);
        }
        let before = self.out.len();
        if let Some(call) = self.start(request, codec, batch) {
            // A batch counts its message itself, because any of its calls keeps all of it.
            let held = if batch.is_none() { self.length } else { 0 };
            self.spawn(call, before, held).await;
        }
    }

    /// Runs a call where it is; gives it back if it goes on.
    fn start(
        &mut self,
        mut request: Request,
        codec: Codec,
        batch: Option<&Arc<BatchReplies>>,
    ) -> Option<LineCall> {
        request.scope = self.scope.clone();
        let mut call = LineCall::start(self.shared.clone(), request, codec, batch.cloned());
        if call.run_in_place(&mut self.out) { None } else { Some(call) }
    }

    /// Hands a call that goes on to the runtime. Its own words begin at `before`.
    async fn spawn(&mut self, call: LineCall, before: usize, held: usize) {
        // What the call has said goes out before whatever it says next.
        if self.out.len() > before || call.is_listen() {
            self.flush().await;
        }
        call.spawn(held, self.charge.take());
    }

    /// Writes what has gathered: here if the client is ready for it, else behind what waits.
    async fn flush(&mut self) {
        if self.out.is_empty() {
            return;
        }
        let Some(mut writer) = self.sink.try_take() else {
            return self.shared.output.send(&mut self.out).await;
        };
        write_queued(&mut writer, &self.shared.output, &self.out).await;
        self.sink.put_back(writer);
        self.out.clear();
        self.out.shrink_to(2 * FLUSH_BYTES);
    }
}

/// There is no room for a message that has begun to come.
fn no_memory() -> Error {
    overloaded().with_message(
        "The server is full: there is no room for a message of this length now. Try again later",
    )
}

/// Whether what began then took long; what comes next begins now.
fn took_long(began: &mut Instant) -> bool {
    let now = Instant::now();
    now - mem::replace(began, now) > SLOW_CALL
}

/// Whether a call, no listen, may begin at once.
fn has_capacity(shared: &ConnectionState, codec: &Codec) -> bool {
    let in_flight = &shared.in_flight;
    !codec.is_listen() && !in_flight.has_id_of(codec) && in_flight.has_slot(&shared.context.limits)
}

/// Whether the call may begin; it may have to wait for another to end.
async fn admit(
    shared: &ConnectionState,
    codec: &Codec,
    batch: Option<&Arc<BatchReplies>>,
) -> Result<(), Error> {
    let (in_flight, limits) = (&shared.in_flight, &shared.context.limits);
    if codec.is_silent() {
        return Ok(());
    }
    if in_flight.has_id_of(codec) {
        return Err(duplicate_id());
    }
    let free = if batch.is_some_and(|batch| batch.is_full()) {
        false
    } else if codec.is_listen() {
        in_flight.listens() < limits.listens && in_flight.has_memory(limits)
    } else {
        // A client may be about to cancel what holds it up, so reading goes on after a while.
        in_flight.has_slot(limits)
            || timeout(limits.patience, in_flight.wait_for_slot(limits)).await.unwrap_or(false)
    };
    if free { Ok(()) } else { Err(overloaded()) }
}
