//! A response that follows a stream through the store, wherever its events come from.

use std::{
    collections::VecDeque,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::{Instant, sleep_until};
use wharf_model::{BoxFuture, RequestExtensions};
use wharf_wire::sse;

use crate::server::http::cluster::{Cluster, POLL_INTERVAL, StoreUnavailable};
use crate::server::http::session::{
    cluster::{
        event_record::{EventKind, EventRecord, lost_call_replies},
        event_writer::{READ_BATCH_SIZE, retention},
        record::RegisteredReader,
    },
    get_stream::SessionSubscription,
    session::{SESSION_STREAM, SessionGuard},
    stream_reader::id,
};

/// How many events later one that was stored twice may come again.
const DEDUP_WINDOW: usize = 64;

/// Follows a stream of a session through the store: what is kept of it, then what comes.
///
/// The session's own stream is fed by whoever follows it: its listen lasts as long as the response.
/// What happens while nobody follows it is told to the next who does.
pub(crate) struct StoredStreamReader {
    next: Option<BoxFuture<(Box<StoredStreamState>, Option<Bytes>)>>,
    keep_alive: Duration,
}

impl StoredStreamReader {
    /// Follows the stream after the event of this number, or from its newest one on if that is not
    /// said, instead of whoever does. None if there is no such event.
    pub(crate) async fn open(
        guard: SessionGuard,
        stream: u64,
        after: Option<u64>,
        scope: RequestExtensions,
    ) -> Result<Option<Self>, StoreUnavailable> {
        let Some(shared_record) = &guard.shared_record else { return Ok(None) };
        let (cluster, name) = (shared_record.cluster.clone(), shared_record.stream(stream));
        let newest = async || {
            let read = cluster.store_call(cluster.stores.events.read(&name, 0, 1)).await;
            read.map(|read| read.newest)
        };
        // Before anything is taken from whoever follows it. The first event of the store only says
        // that there is a stream.
        if stream != SESSION_STREAM && after.unwrap_or(u64::MAX) >= newest().await? {
            return Ok(None);
        }
        let mut subscription = (stream == SESSION_STREAM).then(|| SessionSubscription::new(scope));
        if let Some(subscription) = &mut subscription {
            subscription.start(&guard);
        }
        // What is written here is read there, if this process no longer has all of it.
        if let Some(log) = guard.stream(stream) {
            log.detach_for_store();
        }
        let reader = shared_record.register_reader(stream, false).await?;
        let at = match (stream, after) {
            (SESSION_STREAM, after) => {
                let newest = newest().await?;
                // One that is shorter than it was has been forgotten since, and begun anew.
                after.map_or(newest, |after| if after > newest { 0 } else { after })
            }
            (_, after) => after.unwrap_or_default(),
        };
        let keep_alive = guard.common.limits.keep_alive;
        let mut state = Box::new(StoredStreamState {
            cluster,
            guard,
            reader,
            stream,
            name,
            at,
            // One that was stored twice may have been seen once.
            cursor: if stream == SESSION_STREAM {
                at.saturating_sub(DEDUP_WINDOW as u64)
            } else {
                at
            },
            recent_numbers: VecDeque::new(),
            next_check: Instant::now(),
            writer: None,
            subscription,
            opening: Vec::new(),
            ended: false,
        });
        if after.is_none() {
            state.prime();
        }
        Ok(Some(StoredStreamReader { next: Some(Box::pin(state.next())), keep_alive }))
    }

    pub(crate) fn keep_alive(&self) -> Duration {
        self.keep_alive
    }

    /// All that is there to be sent, in one piece.
    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Some(next) = &mut self.next else { return Poll::Ready(None) };
        next.as_mut().poll(cx).map(|(state, chunk)| {
            self.next = chunk.is_some().then(|| Box::pin(state.next()) as _);
            chunk
        })
    }
}

/// How far a response has come.
struct StoredStreamState {
    cluster: Arc<Cluster>,
    guard: SessionGuard,
    reader: Arc<RegisteredReader>,
    stream: u64,
    name: String,
    /// The number of the event that the client has seen last.
    at: u64,
    /// The number that the store gave it, or less.
    cursor: u64,
    /// The numbers that their writers gave the last events of the session's own stream.
    recent_numbers: VecDeque<u64>,
    /// When to look whether the writer is gone.
    next_check: Instant,
    /// Who runs the calls, once that is known.
    writer: Option<StreamWriter>,
    /// What feeds the session's own stream.
    subscription: Option<SessionSubscription>,
    /// What the response begins with.
    opening: Vec<u8>,
    ended: bool,
}

/// Who runs the calls of a stream.
struct StreamWriter {
    node: u32,
    reply_ids: String,
}

impl StoredStreamState {
    fn prime(&mut self) {
        if self.guard.polls {
            let retry = Some(self.guard.common.limits.retry);
            sse::priming(&mut self.opening, &id(self.stream, self.at), retry);
        }
    }

    /// What comes next. None at the end.
    async fn next(mut self: Box<Self>) -> (Box<Self>, Option<Bytes>) {
        let mut chunk = std::mem::take(&mut self.opening);
        while !self.is_over() {
            // A store that is gone comes back, and the client sees meanwhile that we are alive.
            if self.read(&mut chunk).await.is_err() && chunk.is_empty() {
                self.cluster.wait_until_available().await;
                continue;
            }
            if !chunk.is_empty() {
                break;
            }
            if !self.ended {
                self.wait().await;
            }
        }
        let chunk = (!chunk.is_empty()).then(|| chunk.into());
        (self, chunk)
    }

    fn is_over(&self) -> bool {
        self.ended || self.reader.is_displaced() || self.guard.is_ended()
    }

    /// Reads what the store has, as much of it as fits into one piece.
    async fn read(&mut self, chunk: &mut Vec<u8>) -> Result<(), StoreUnavailable> {
        let events = &self.cluster.stores.events;
        let mut read =
            self.cluster.store_call(events.read(&self.name, self.cursor, READ_BATCH_SIZE)).await?;
        if self.stream == SESSION_STREAM && read.newest < self.cursor {
            (self.at, self.cursor) = (0, 0);
            read = self.cluster.store_call(events.read(&self.name, 0, READ_BATCH_SIZE)).await?;
        }
        for (number, event) in read.events {
            self.cursor = number;
            if let Some(entry) = EventRecord::parse(&event) {
                self.take_event(number, &entry, chunk);
            }
            if self.ended {
                break;
            }
        }
        Ok(())
    }

    fn take_event(&mut self, stored: u64, entry: &EventRecord<'_>, chunk: &mut Vec<u8>) {
        let number = if self.stream == SESSION_STREAM { stored } else { entry.number };
        if self.stream == SESSION_STREAM && self.is_repeated(entry.number) {
            return;
        }
        if self.writer.is_none() && self.stream != SESSION_STREAM {
            self.writer =
                Some(StreamWriter { node: entry.node, reply_ids: entry.reply_ids.to_owned() });
        }
        if number > self.at {
            self.at = number;
            if !entry.message.is_empty() {
                sse::event(chunk, Some(&id(self.stream, number)), entry.message);
            }
        }
        self.ended = entry.kind == EventKind::End;
    }

    /// Whether an event of the session's own stream was stored before, by an attempt that seemed to
    /// fail.
    fn is_repeated(&mut self, number: u64) -> bool {
        let repeated = self.recent_numbers.contains(&number);
        if !repeated {
            self.recent_numbers.truncate(DEDUP_WINDOW - 1);
            self.recent_numbers.push_front(number);
        }
        repeated
    }

    /// Waits until there may be more.
    async fn wait(&mut self) {
        let shutdown = self.cluster.shutdown.clone();
        let (guard, wakeup) = (&self.guard, &self.reader.wakeup);
        let notification = async {
            match &mut self.subscription {
                Some(subscription) => subscription.next(guard).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            message = notification => {
                let number = self.cluster.next_ticket();
                self.append(EventKind::Message, number, &message).await;
            }
            () = wakeup.notified() => {}
            () = shutdown.stopped() => self.ended = true,
            () = sleep_until(self.next_check) => {
                self.next_check = Instant::now() + POLL_INTERVAL;
                self.check_writer().await;
            }
        }
    }

    /// Sees to it that nobody waits for a process that is gone.
    async fn check_writer(&mut self) {
        // Whoever uses a session through its streams alone uses it too.
        self.guard.touch();
        if self.stream == SESSION_STREAM {
            return;
        }
        let Some(writer) = &self.writer else {
            // Nothing is kept of it, not even who writes it.
            self.ended = true;
            return;
        };
        if !self.cluster.is_gone(writer.node).await {
            return;
        }
        let replies = lost_call_replies(&self.guard.connection(), &writer.reply_ids);
        // Others may say the same: the first end counts.
        self.append(EventKind::End, self.at + 1, &replies).await;
    }

    async fn append(&mut self, kind: EventKind, number: u64, message: &[u8]) {
        let reply_ids = self.writer.as_ref().map_or("", |writer| &writer.reply_ids);
        let event =
            EventRecord { kind, node: self.cluster.node, number, reply_ids, message }.to_bytes();
        let retention = retention(&self.guard.common.limits, event.len());
        let events = &self.cluster.stores.events;
        let stored = loop {
            match self.cluster.store_call(events.append(&self.name, event.clone(), retention)).await
            {
                Ok(stored) => break stored,
                Err(StoreUnavailable) => self.cluster.wait_until_available().await,
            }
        };
        if self.stream == SESSION_STREAM && stored <= self.cursor {
            // It was forgotten for want of events, and begun anew.
            (self.at, self.cursor) = (0, 0);
        }
    }
}
