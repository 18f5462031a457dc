//! HTTP response that reads a stream from the store, whichever process writes it.

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
        record::{RegisteredReader, SessionRecord},
        session_subscription::SessionSubscription,
        sessions::SharedGuard,
    },
    idle_time::SessionGuard,
    live_session::SESSION_STREAM,
    stream_reader::id,
};

/// Number of events after which an event that was stored twice can no longer reappear.
const DEDUP_WINDOW: usize = 64;

/// Reads a stream of a session from the store: first the replayed events, then new ones.
///
/// The reader of the session's stream also feeds it: the session's subscription runs while the response is
/// open. Changes in between are reported to the next reader.
pub(crate) struct StoredStreamReader {
    next: Option<BoxFuture<(Box<StoredStreamState>, Option<Bytes>)>>,
    keep_alive: Duration,
}

impl StoredStreamReader {
    /// Opens the stream after this event, or after the newest one without an event number. Displaces the
    /// current reader. None if there is no such event.
    pub(crate) async fn open(
        SharedGuard { guard, record: shared_record }: SharedGuard,
        stream: u64,
        after: Option<u64>,
        scope: RequestExtensions,
    ) -> Result<Option<Self>, StoreUnavailable> {
        let (cluster, name) = (shared_record.cluster.clone(), shared_record.stream(stream));
        let newest = async || {
            let read = cluster.store_call(cluster.stores.events.read(&name, 0, 1)).await;
            read.map(|read| read.newest)
        };
        // Checked before the current reader is displaced. The first stored event only opens the stream.
        if stream != SESSION_STREAM && after.unwrap_or(u64::MAX) >= newest().await? {
            return Ok(None);
        }
        let mut subscription = (stream == SESSION_STREAM).then(|| SessionSubscription::new(scope));
        if let Some(subscription) = &mut subscription {
            subscription.start(&guard);
        }
        // Events that this process writes are read from the store, because its log may have dropped some.
        if let Some(log) = guard.stream(stream) {
            log.detach_for_store();
        }
        let reader = shared_record.register_reader(stream, false).await?;
        let at = match (stream, after) {
            (SESSION_STREAM, after) => {
                let newest = newest().await?;
                // A stream with fewer events than before has expired and was started anew.
                after.map_or(newest, |after| if after > newest { 0 } else { after })
            }
            (_, after) => after.unwrap_or_default(),
        };
        let keep_alive = guard.common.limits.keep_alive;
        let mut state = Box::new(StoredStreamState {
            cluster,
            guard,
            shared_record,
            reader,
            stream,
            name,
            at,
            // An event that was stored twice may have been seen once.
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

    /// Polls for the next chunk of encoded events.
    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Some(next) = &mut self.next else { return Poll::Ready(None) };
        next.as_mut().poll(cx).map(|(state, chunk)| {
            self.next = chunk.is_some().then(|| Box::pin(state.next()) as _);
            chunk
        })
    }
}

/// State of the response.
struct StoredStreamState {
    cluster: Arc<Cluster>,
    guard: SessionGuard,
    shared_record: Arc<SessionRecord>,
    reader: Arc<RegisteredReader>,
    stream: u64,
    name: String,
    /// Number of the last event that the client has seen.
    at: u64,
    /// Number of that event in the store, or less.
    cursor: u64,
    /// Writer's numbers of the last events of the session's stream, to recognize duplicates.
    recent_numbers: VecDeque<u64>,
    /// Time of the next check that the writer is alive.
    next_check: Instant,
    /// Process that runs the calls, once an event has named it.
    writer: Option<StreamWriter>,
    /// Subscription that feeds the session's stream.
    subscription: Option<SessionSubscription>,
    /// Bytes that precede the first event.
    opening: Vec<u8>,
    ended: bool,
}

/// Process that runs the calls of a stream.
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

    /// Returns the next chunk. None at the end.
    async fn next(mut self: Box<Self>) -> (Box<Self>, Option<Bytes>) {
        let mut chunk = std::mem::take(&mut self.opening);
        while !self.is_over() {
            // The reader waits for an unavailable store. Keep-alives show the client meanwhile that the
            // connection is alive.
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

    /// Reads stored events, up to one batch.
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
            if let Some(record) = EventRecord::parse(&event) {
                self.take_event(number, &record, chunk);
            }
            if self.ended {
                break;
            }
        }
        Ok(())
    }

    fn take_event(&mut self, stored: u64, record: &EventRecord<'_>, chunk: &mut Vec<u8>) {
        let number = if self.stream == SESSION_STREAM { stored } else { record.number };
        if self.stream == SESSION_STREAM && self.is_repeated(record.number) {
            return;
        }
        if self.writer.is_none() && self.stream != SESSION_STREAM {
            self.writer =
                Some(StreamWriter { node: record.node, reply_ids: record.reply_ids.to_owned() });
        }
        if number > self.at {
            self.at = number;
            if !record.message.is_empty() {
                sse::event(chunk, Some(&id(self.stream, number)), record.message);
            }
        }
        self.ended = record.kind == EventKind::End;
    }

    /// Returns true if an event of the session's stream was stored before, by an attempt whose response was
    /// lost.
    fn is_repeated(&mut self, number: u64) -> bool {
        let repeated = self.recent_numbers.contains(&number);
        if !repeated {
            self.recent_numbers.truncate(DEDUP_WINDOW - 1);
            self.recent_numbers.push_front(number);
        }
        repeated
    }

    /// Waits for more events.
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

    /// Ends the stream with error replies if its writer has died.
    async fn check_writer(&mut self) {
        // Reading a stream counts as a use of the session.
        self.shared_record.mark_used();
        if self.stream == SESSION_STREAM {
            return;
        }
        let Some(writer) = &self.writer else {
            // No event is left, so the writer is unknown.
            self.ended = true;
            return;
        };
        if !self.cluster.is_gone(writer.node).await {
            return;
        }
        let replies = lost_call_replies(&self.guard.connection(), &writer.reply_ids);
        // Several readers may write this; the first end counts.
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
            // The stream expired and was started anew.
            (self.at, self.cursor) = (0, 0);
        }
    }
}
