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

use crate::server::http::cluster::{Away, Fleet, LOOK};
use crate::server::http::session::{
    cluster::{
        event_record::{Entry, Kind, last_words},
        event_writer::{BATCH, keep},
        record::Reader,
    },
    get_stream::Listening,
    session::{OWN, Visit},
    stream_reader::id,
};

/// How many events later one that was stored twice may come again.
const REPEATED: usize = 64;

/// Follows a stream of a session through the store: what is kept of it, then what comes.
///
/// The session's own stream is fed by whoever follows it: its listen lasts as long as the response.
/// What happens while nobody follows it is told to the next who does.
pub(crate) struct Stored {
    next: Option<BoxFuture<(Box<Following>, Option<Bytes>)>>,
    keep_alive: Duration,
}

impl Stored {
    /// Follows the stream after the event of this number, or from its newest one on if that is not
    /// said, instead of whoever does. None if there is no such event.
    pub(crate) async fn of(
        visit: Visit,
        stream: u64,
        after: Option<u64>,
        scope: RequestExtensions,
    ) -> Result<Option<Self>, Away> {
        let Some(member) = &visit.member else { return Ok(None) };
        let (fleet, name) = (member.fleet.clone(), member.stream(stream));
        let newest = async || {
            let read = fleet.ask(fleet.stores.events.read(&name, 0, 1)).await;
            read.map(|read| read.newest)
        };
        // Before anything is taken from whoever follows it. The first event of the store only says
        // that there is a stream.
        if stream != OWN && after.unwrap_or(u64::MAX) >= newest().await? {
            return Ok(None);
        }
        let mut listening = (stream == OWN).then(|| Listening::new(scope));
        if let Some(listening) = &mut listening {
            listening.begin(&visit);
        }
        // What is written here is read there, if this process no longer has all of it.
        if let Some(log) = visit.stream(stream) {
            log.follow_elsewhere();
        }
        let reader = member.follow(stream, false).await?;
        let at = match (stream, after) {
            (OWN, after) => {
                let newest = newest().await?;
                // One that is shorter than it was has been forgotten since, and begun anew.
                after.map_or(newest, |after| if after > newest { 0 } else { after })
            }
            (_, after) => after.unwrap_or_default(),
        };
        let keep_alive = visit.common.limits.keep_alive;
        let mut following = Box::new(Following {
            fleet,
            visit,
            reader,
            stream,
            name,
            at,
            // One that was stored twice may have been seen once.
            cursor: if stream == OWN { at.saturating_sub(REPEATED as u64) } else { at },
            told: VecDeque::new(),
            look: Instant::now(),
            writer: None,
            listening,
            opening: Vec::new(),
            ended: false,
        });
        if after.is_none() {
            following.prime();
        }
        Ok(Some(Stored { next: Some(Box::pin(following.next())), keep_alive }))
    }

    pub(crate) fn keep_alive(&self) -> Duration {
        self.keep_alive
    }

    /// All that is there to be sent, in one piece.
    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Some(next) = &mut self.next else { return Poll::Ready(None) };
        next.as_mut().poll(cx).map(|(following, chunk)| {
            self.next = chunk.is_some().then(|| Box::pin(following.next()) as _);
            chunk
        })
    }
}

/// How far a response has come.
struct Following {
    fleet: Arc<Fleet>,
    visit: Visit,
    reader: Arc<Reader>,
    stream: u64,
    name: String,
    /// The number of the event that the client has seen last.
    at: u64,
    /// The number that the store gave it, or less.
    cursor: u64,
    /// The numbers that their writers gave the last events of the session's own stream.
    told: VecDeque<u64>,
    /// When to look whether the writer is gone.
    look: Instant,
    /// Who runs the calls, once that is known.
    writer: Option<Writer>,
    /// What feeds the session's own stream.
    listening: Option<Listening>,
    /// What the response begins with.
    opening: Vec<u8>,
    ended: bool,
}

/// Who runs the calls of a stream.
struct Writer {
    node: u32,
    owed: String,
}

impl Following {
    fn prime(&mut self) {
        if self.visit.polls {
            let retry = Some(self.visit.common.limits.retry);
            sse::priming(&mut self.opening, &id(self.stream, self.at), retry);
        }
    }

    /// What comes next. None at the end.
    async fn next(mut self: Box<Self>) -> (Box<Self>, Option<Bytes>) {
        let mut chunk = std::mem::take(&mut self.opening);
        while !self.is_over() {
            // A store that is gone comes back, and the client sees meanwhile that we are alive.
            if self.read(&mut chunk).await.is_err() && chunk.is_empty() {
                self.fleet.back().await;
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
        self.ended || self.reader.is_taken() || self.visit.is_ended()
    }

    /// Reads what the store has, as much of it as fits into one piece.
    async fn read(&mut self, chunk: &mut Vec<u8>) -> Result<(), Away> {
        let events = &self.fleet.stores.events;
        let mut read = self.fleet.ask(events.read(&self.name, self.cursor, BATCH)).await?;
        if self.stream == OWN && read.newest < self.cursor {
            (self.at, self.cursor) = (0, 0);
            read = self.fleet.ask(events.read(&self.name, 0, BATCH)).await?;
        }
        for (number, event) in read.events {
            self.cursor = number;
            if let Some(entry) = Entry::parse(&event) {
                self.take(number, &entry, chunk);
            }
            if self.ended {
                break;
            }
        }
        Ok(())
    }

    fn take(&mut self, stored: u64, entry: &Entry<'_>, chunk: &mut Vec<u8>) {
        let number = if self.stream == OWN { stored } else { entry.number };
        if self.stream == OWN && self.is_repeated(entry.number) {
            return;
        }
        if self.writer.is_none() && self.stream != OWN {
            self.writer = Some(Writer { node: entry.node, owed: entry.owed.to_owned() });
        }
        if number > self.at {
            self.at = number;
            if !entry.message.is_empty() {
                sse::event(chunk, Some(&id(self.stream, number)), entry.message);
            }
        }
        self.ended = entry.kind == Kind::End;
    }

    /// Whether an event of the session's own stream was stored before, by an attempt that seemed to
    /// fail.
    fn is_repeated(&mut self, number: u64) -> bool {
        let repeated = self.told.contains(&number);
        if !repeated {
            self.told.truncate(REPEATED - 1);
            self.told.push_front(number);
        }
        repeated
    }

    /// Waits until there may be more.
    async fn wait(&mut self) {
        let shutdown = self.fleet.shutdown.clone();
        let (visit, news) = (&self.visit, &self.reader.news);
        let heard = async {
            match &mut self.listening {
                Some(listening) => listening.next(visit).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            message = heard => {
                let number = self.fleet.ticket();
                self.append(Kind::Said, number, &message).await;
            }
            () = news.notified() => {}
            () = shutdown.stopped() => self.ended = true,
            () = sleep_until(self.look) => {
                self.look = Instant::now() + LOOK;
                self.check().await;
            }
        }
    }

    /// Sees to it that nobody waits for a process that is gone.
    async fn check(&mut self) {
        // Whoever uses a session through its streams alone uses it too.
        self.visit.touch();
        if self.stream == OWN {
            return;
        }
        let Some(writer) = &self.writer else {
            // Nothing is kept of it, not even who writes it.
            self.ended = true;
            return;
        };
        if !self.fleet.is_gone(writer.node).await {
            return;
        }
        let words = last_words(&self.visit.connection(), &writer.owed);
        // Others may say the same: the first end counts.
        self.append(Kind::End, self.at + 1, &words).await;
    }

    async fn append(&mut self, kind: Kind, number: u64, message: &[u8]) {
        let owed = self.writer.as_ref().map_or("", |writer| &writer.owed);
        let event = Entry { kind, node: self.fleet.node, number, owed, message }.to_bytes();
        let keep = keep(&self.visit.common.limits, event.len());
        let events = &self.fleet.stores.events;
        let stored = loop {
            match self.fleet.ask(events.append(&self.name, event.clone(), keep)).await {
                Ok(stored) => break stored,
                Err(Away) => self.fleet.back().await,
            }
        };
        if self.stream == OWN && stored <= self.cursor {
            // It was forgotten for want of events, and begun anew.
            (self.at, self.cursor) = (0, 0);
        }
    }
}
