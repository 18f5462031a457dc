//! Reads messages from the client and handles calls that end at once in place.

mod partial_line;

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
use wharf_model::{Caller, Error, Method, RefusalReason, Request, RequestExtensions};
use wharf_wire::{Codec, Connection, Line, Lines, Received};

use crate::server::{
    admission::{admit_or_wait, may_start},
    call_driver::{CallDriver, spawn_notification},
    jsonl::{
        batch::BatchReplies,
        call::{ConnectionState, LineCall},
        reader::partial_line::PartialLine,
        writer::{SharedWriter, write_queued},
    },
    limits::message_memory::{MessageBudget, MessageCharge, PartialCharge},
};

/// Maximum size of a read.
const READ_CHUNK_BYTES: usize = 64 << 10;
/// Minimum free space of a read buffer before a new one is allocated. A call in flight keeps its
/// buffer, so many calls should share one.
const MIN_BUFFER_ROOM_BYTES: usize = 4 << 10;
/// Size of output that is written although there is more input. With one more reply it still fits
/// into a pipe at once.
const FLUSH_BYTES: usize = 60 << 10;
/// Maximum number of messages that are decoded before the first is handled. The code that decodes
/// and the code that handles do not fit into the L1 cache together, so they alternate in batches.
const MAX_READ_AHEAD: usize = 8;
/// Duration of a call in place after which gathered replies are written at once.
const SLOW_CALL: Duration = Duration::from_millis(5);

/// Reading half of a connection; also handles calls that end at once.
pub(crate) struct LineReader<W> {
    shared: Arc<ConnectionState>,
    scope: RequestExtensions,
    connection: Connection,
    lines: Lines,
    /// True until the first line is read.
    first_line: bool,
    /// True when no more messages are read: the client sent HTTP, or it has disconnected.
    stopped: bool,
    /// Length of the current message.
    length: usize,
    sink: Arc<SharedWriter<W>>,
    out: Vec<u8>,
    /// Decoded messages that are not handled yet, with their lengths; empty between two reads.
    ahead: VecDeque<(Received, usize)>,
    /// Current number of messages to decode ahead: 1 if calls are slow, so that they do not delay
    /// each other's replies.
    read_ahead_limit: usize,
    /// True if the next read buffer should be small, because a long message was just read. A large
    /// buffer would be cut from that message's memory, which then could not be freed.
    small_reads: bool,
    /// Limits for partially received messages; `None` for stdio.
    budget: Option<Arc<MessageBudget>>,
    /// State of a partially received message, if any.
    partial: Option<Box<PartialLine>>,
    /// Memory of the current message, if it is large.
    charge: Option<MessageCharge>,
}

impl<W: AsyncWrite + Unpin> LineReader<W> {
    pub(crate) fn new(
        shared: Arc<ConnectionState>,
        scope: RequestExtensions,
        sink: Arc<SharedWriter<W>>,
    ) -> Self {
        LineReader {
            connection: Connection::new(shared.context.wire.clone()),
            lines: Lines::new(shared.context.max_message()),
            shared,
            scope: scope.shared(),
            first_line: true,
            stopped: false,
            length: 0,
            sink,
            out: Vec::new(),
            ahead: VecDeque::new(),
            read_ahead_limit: 1,
            small_reads: false,
            budget: None,
            partial: None,
            charge: None,
        }
    }

    /// Limits the time and memory of partially received messages.
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
                // The rest of a rejected message is skipped, which needs little memory.
                let skips = buffer.is_empty() && !self.lines.is_between();
                self.lines.buffer().reserve(if self.small_reads || skips {
                    MIN_BUFFER_ROOM_BYTES
                } else {
                    READ_CHUNK_BYTES
                });
            }
            let mut room = self.lines.buffer().limit(READ_CHUNK_BYTES);
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
            // A read error counts as a disconnect.
            let size = read.unwrap_or(0);
            shared.observed.peer.received(size);
            // A client that sends much at once gets large buffers again.
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
            if closed || ended || self.stopped {
                return;
            }
        }
    }

    /// Rejects a message whose id is unknown, because it was not decoded.
    async fn refuse(&mut self, reason: RefusalReason, error: &Error) {
        self.shared.observed.peer.refused(reason, &error.message);
        if let Received::Reply(reply, ..) = self.connection.refuse(error) {
            self.reply(&reply, None);
        }
        self.flush().await;
    }

    /// Handles all complete lines, then writes the output.
    async fn drain(&mut self, ended: bool) {
        while self.read_ahead(ended) {
            // A large message is the first one that the last read completed.
            if let Some(partial) = self.partial.take() {
                self.charge = partial.charge.map(PartialCharge::complete);
            }
            // The last reply is written at once in any case.
            let more = self.ahead.len() > 1 || !self.lines.buffer().is_empty();
            let (mut began, mut quick) = (more.then(Instant::now), true);
            while let Some((received, length)) = self.ahead.pop_front() {
                self.length = length;
                match received {
                    // Most calls end in place and need no future.
                    Received::Call(request, codec) if self.may_start(&codec) => {
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

    /// Decodes the next few messages. False if there are none.
    fn read_ahead(&mut self, ended: bool) -> bool {
        while self.ahead.len() < self.read_ahead_limit
            && !self.stopped
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
            // Any other message, or its reply, may change the decoding of the next one.
            let call = matches!(&received, Received::Call(it, _) if it.method != Method::Discover);
            if let Received::Call(discover, _) = &received
                && !call
            {
                self.connection.count_as(&Caller::of(&self.scope));
                if let Some(protocol) = discover.protocol {
                    self.shared.observed.set_protocol_version(protocol.version);
                }
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
            // The following lines and an idle connection must not keep the buffer of a long line.
            let buffer = self.lines.buffer();
            *buffer = BytesMut::from(&buffer[..]);
            self.small_reads = true;
        }
        if ended && line.is_none() {
            return self.lines.finish();
        }
        line
    }

    /// Closes the connection if its first line is an HTTP request. A web page can make a browser
    /// send one here, with messages in its body.
    fn is_http(&mut self, first: &[u8]) -> bool {
        if !mem::take(&mut self.first_line) {
            return false;
        }
        self.stopped = first.ends_with(b" HTTP/1.1") || first.ends_with(b" HTTP/1.0");
        if self.stopped {
            let peer = &self.shared.observed.peer;
            peer.refused(RefusalReason::InvalidRequest, "the client sent an HTTP request");
        }
        self.stopped
    }

    async fn handle_message(&mut self, received: Received) {
        match received {
            Received::Batch(members) => {
                let batch = BatchReplies::new(self.shared.clone(), self.charge.take());
                for member in members {
                    self.handle_received(member, Some(&batch)).await;
                }
                batch.hold(self.length);
                // Notifications of the members are written before their replies.
                self.flush().await;
                batch.release();
                self.shared.output.wait_for_room().await;
            }
            received => self.handle_received(received, None).await,
        }
    }

    async fn handle_received(&mut self, received: Received, batch: Option<&Arc<BatchReplies>>) {
        match received {
            Received::Call(request, codec) => self.call(request, codec, batch).await,
            Received::Reply(reply, _, refused) => {
                if let Some(kind) = refused {
                    self.shared.observed.peer.refused_with(kind, &reply);
                }
                self.reply(&reply, batch);
            }
            Received::Answer(number, answer) => self.shared.in_flight.answer(number, answer),
            Received::Cancel(id) => {
                self.shared.in_flight.cancel(&id);
                // A dropped call withdraws its open requests even if the output queue is full.
                self.shared.output.wait_for_room().await;
            }
            Received::Notify(mut request) => {
                request.scope = self.scope.clone();
                if let Some(pending) = self.shared.context.start_notification(request) {
                    let spawn = |run| tokio::spawn(run).abort_handle();
                    spawn_notification(&self.shared, self.length, pending, spawn);
                }
            }
            // Batches cannot be nested.
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
        let (in_flight, limits) = (&self.shared.in_flight, &self.shared.context.limits);
        let is_batch_full = batch.is_some_and(|batch| batch.is_full());
        if let Err(error) = admit_or_wait(in_flight, &codec, limits, is_batch_full).await {
            let reason = RefusalReason::of_kind(error.kind);
            self.shared.observed.peer.refused(reason, &error.message);
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

    fn may_start(&self, codec: &Codec) -> bool {
        may_start(&self.shared.in_flight, codec, &self.shared.context.limits)
    }

    /// Polls a call in place; returns it if it is pending.
    fn start(
        &mut self,
        mut request: Request,
        codec: Codec,
        batch: Option<&Arc<BatchReplies>>,
    ) -> Option<LineCall> {
        request.scope = self.scope.clone();
        let driver = CallDriver::start(&self.shared.context, request, codec, false);
        let mut call = LineCall::new(self.shared.clone(), driver, batch.cloned());
        if call.run_in_place(&mut self.out) { None } else { Some(call) }
    }

    /// Spawns a pending call as a task. Its output in `out` begins at `before`.
    async fn spawn(&mut self, call: LineCall, before: usize, held: usize) {
        // Output so far is written before later output of the task.
        if self.out.len() > before || call.is_subscription() {
            self.flush().await;
        }
        // Calls of a disconnected client do not start: started all at once, they could produce much output.
        self.stopped |= self.shared.output.is_broken();
        if !self.stopped {
            call.spawn(held, self.charge.take());
        }
    }

    /// Writes the gathered output directly if the writer is free, otherwise through the queue.
    async fn flush(&mut self) {
        if self.out.is_empty() {
            return;
        }
        let Some(mut writer) = self.sink.try_take() else {
            return self.shared.output.send(&mut self.out).await;
        };
        write_queued(&mut writer, &self.shared, &self.out).await;
        self.sink.put_back(writer);
        self.out.clear();
        self.out.shrink_to(2 * FLUSH_BYTES);
    }
}

/// True if the last call was slow; restarts the measurement.
fn took_long(began: &mut Instant) -> bool {
    let now = Instant::now();
    now - mem::replace(began, now) > SLOW_CALL
}
