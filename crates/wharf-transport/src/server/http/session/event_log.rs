//! One stream: the events that are kept for a client that comes back, and who reads them.

pub(crate) mod persist;

use std::{
    collections::VecDeque,
    mem,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll, Waker},
};

use tokio::{sync::Notify, time::timeout};
use wharf_model::Error;

use crate::server::http::call_stream::FULL;
use crate::server::http::session::event_log::persist::Storing;
pub(crate) use crate::server::http::session::event_log::persist::Unstored;
use crate::server::http::session::{
    cluster::event_writer::Journal,
    session::{Common, Session},
};

/// What an event takes beside its message: its place in the queue, which has up to as many free, what the allocator
/// adds, and what is not worth giving back.
const OVERHEAD: usize = 128;
/// How much of a message's memory may be unused before it is given back.
const UNUSED: usize = 64;
/// What a stream takes beside its events.
const STREAM: usize = 512;

/// One stream of a session. Its events are numbered from 1.
pub(crate) struct Log {
    pub(crate) number: u64,
    common: Arc<Common>,
    state: Mutex<State>,
    room: Notify,
    /// Where its events go before anybody reads them, where several processes serve the session.
    journal: Option<Box<Journal>>,
    /// The session that has it among the streams of its calls.
    session: Weak<Session>,
}

#[derive(Default)]
struct State {
    /// The newest events.
    events: VecDeque<Vec<u8>>,
    /// How many bytes they take.
    bytes: usize,
    /// The number of the newest event.
    newest: u64,
    /// The number of the newest event that anybody has read.
    sent: u64,
    reader: Option<Reader>,
    readers: u64,
    ended: bool,
    ending: Option<Ending>,
    /// Its place among the streams that have ended.
    place: Option<u64>,
    /// Set when nothing of it can be had any more.
    forgotten: bool,
    /// How far it is in the store, once it is kept there.
    storing: Option<Storing>,
}

/// Who reads the stream right now.
struct Reader {
    ticket: u64,
    /// The number of the event that was read last.
    at: u64,
    /// How many bytes the events after it take.
    unread: usize,
    /// After which event the reader goes, although the stream goes on.
    leaves: Option<u64>,
    waker: Option<Waker>,
}

/// How a stream's reply would be answered if it were all there is to say.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    pub(crate) status: u16,
    /// Why the call may be tried again later, and when.
    pub(crate) refused: Option<Box<Error>>,
}

/// What a stream begins with.
pub(crate) enum First {
    /// The reply, so that there is no need for a stream.
    Reply(Ending),
    /// Something else, or an early end of the response.
    Said,
    /// Nothing will be said.
    Nothing,
}

/// What a reader gets.
pub(crate) enum Read {
    /// Events, which have been written.
    Events,
    /// The rest is for those who come back.
    LetGo,
    End,
}

impl Log {
    pub(crate) fn new(
        number: u64,
        common: Arc<Common>,
        journal: Option<Journal>,
        session: Weak<Session>,
    ) -> Arc<Self> {
        common.kept.add(STREAM);
        let (state, room, journal) = (Mutex::default(), Notify::new(), journal.map(Box::new));
        Arc::new(Log { number, common, state, room, journal, session })
    }

    /// Appends a message as soon as the reader, if there is one, has read enough.
    pub(crate) async fn send(self: &Arc<Self>, message: &[u8]) {
        if !self.has_room() {
            // Boxed, or every call would keep the memory for what few need.
            Box::pin(self.room()).await;
        }
        self.push(message.to_vec());
    }

    /// Waits for the reader. One that reads nothing for too long is sent away.
    async fn room(&self) {
        while !self.has_room() {
            let mut room = pin!(self.room.notified());
            room.as_mut().enable();
            if self.has_room() {
                break;
            }
            if timeout(self.common.limits.write, room).await.is_err() {
                let reader = self.lock().late_reader();
                self.part(reader);
            }
        }
    }

    fn has_room(&self) -> bool {
        // Half of it: the other half may be on its way to the client.
        let most = self.common.host.limits.output.div_ceil(2);
        // Readers that keep up still get every event, one after the other.
        let unread = if self.common.kept.is_full() { 1 } else { most };
        let state = self.lock();
        state.reader.as_ref().is_none_or(|reader| reader.unread < unread)
            && state.storing.as_ref().is_none_or(|storing| storing.waiting < most)
    }

    /// Returns true if the same message waits here to be read.
    pub(crate) fn has_unread(&self, message: &[u8]) -> bool {
        let state = self.lock();
        let unread = (state.newest - state.sent) as usize;
        let same = |event: &Vec<u8>| event == message;
        state.storing.is_none() && state.events.iter().rev().take(unread).any(same)
    }

    /// Appends a message, whether there is room or not.
    pub(crate) fn push(self: &Arc<Self>, message: Vec<u8>) {
        let mut state = self.lock();
        self.append(&mut state, message);
        let waker = state.waker();
        drop(state);
        wake(waker);
        self.store();
        if !self.common.kept.make_room() {
            // All that could be dropped elsewhere is dropped.
            let mut state = self.lock();
            let least = usize::from(state.ended || state.reader.is_some());
            self.trim(&mut state, least, 0, 0);
        }
    }

    fn append(&self, state: &mut State, mut message: Vec<u8>) {
        if state.ended {
            return;
        }
        if message.capacity() - message.len() > UNUSED {
            message.shrink_to_fit();
        }
        let size = message.len() + OVERHEAD;
        state.events.push_back(message);
        state.newest += 1;
        state.bytes += size;
        self.common.kept.add(size);
        self.bound(state);
        if let Some(reader) = &mut state.reader {
            reader.unread += size;
        }
        if let Some(storing) = &mut state.storing {
            storing.waiting += size;
        }
    }

    /// Drops what is too old to be kept.
    fn bound(&self, state: &mut State) {
        // The newest may be what the client waits for.
        self.trim(state, 1, self.common.limits.replay_events, self.common.limits.replay_bytes);
    }

    /// Drops the oldest events beyond `events` and `bytes`, but neither what the reader has yet to
    /// read nor the newest `least`.
    fn trim(&self, state: &mut State, least: usize, events: usize, bytes: usize) {
        let before = state.bytes;
        while state.events.len() > least && (state.events.len() > events || state.bytes > bytes) {
            let oldest = state.oldest();
            if state.reader.as_ref().is_some_and(|reader| reader.at < oldest)
                || state.visible() < oldest
            {
                break;
            }
            let dropped = state.events.pop_front().unwrap_or_default();
            state.bytes -= dropped.len() + OVERHEAD;
        }
        if state.events.capacity() > 4 * state.events.len() + 16 {
            state.events.shrink_to(2 * state.events.len());
        }
        self.common.kept.remove(before - state.bytes);
    }

    /// Ends the stream, with a reply if there is one.
    pub(crate) fn end(self: &Arc<Self>, reply: Option<(Vec<u8>, Ending)>) {
        let mut state = self.lock();
        if let Some((message, ending)) = reply {
            state.ending = Some(ending);
            self.append(&mut state, message);
        }
        state.ended = true;
        self.line_up(&mut state);
        let waker = state.waker();
        drop(state);
        wake(waker);
        self.store();
        self.common.kept.expire(self.common.now());
        self.common.kept.make_room();
    }

    /// Lets the reader go with what has been said so far.
    pub(crate) fn release_connection(&self) {
        let mut state = self.lock();
        let newest = state.newest;
        let Some(reader) = &mut state.reader else { return };
        reader.leaves.get_or_insert(newest);
        let waker = state.waker();
        drop(state);
        wake(waker);
    }

    /// Ends the stream here and now: the session is over.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.ended = true;
        self.clear(&mut state);
        let reader = state.reader.take();
        drop(state);
        self.part(reader);
    }

    /// Drops all that is kept of a stream that has ended, unless somebody reads it or the store has
    /// yet to get it.
    pub(crate) fn forget(&self) {
        let mut state = self.lock();
        state.place = None;
        let is_stored = state.storing.as_ref().is_none_or(|storing| storing.ended);
        if state.reader.is_none() && is_stored {
            self.clear(&mut state);
            drop(state);
            // What the store has of it is left to time.
            if let Some(session) = self.session.upgrade() {
                session.release_stream(self.number);
            }
        }
    }

    fn clear(&self, state: &mut State) {
        state.forgotten = true;
        state.events = VecDeque::new();
        self.common.kept.remove(mem::take(&mut state.bytes));
    }

    fn line_up(self: &Arc<Self>, state: &mut State) {
        if state.ended && !state.forgotten && state.place.is_none() {
            let now = self.common.now();
            state.place = Some(self.common.kept.line_up(Arc::downgrade(self), now));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reader's side. A reader is known by its ticket, and gone when another has come.
impl Log {
    /// Begins to read where the last reader stopped. None if that one is still there.
    pub(crate) fn attach(&self) -> Option<u64> {
        let mut state = self.lock();
        let sent = state.sent;
        state.reader.is_none().then(|| state.seat(sent))
    }

    /// Begins to read after the event of this number, instead of whoever reads. None if there
    /// never was such an event, or the stream has been forgotten.
    pub(crate) fn resume(&self, after: u64) -> Option<u64> {
        let mut state = self.lock();
        if after > state.visible() || state.forgotten {
            return None;
        }
        // The store may have what is dropped here.
        if state.storing.is_some() && after + 1 < state.oldest() {
            return None;
        }
        if let Some(storing) = &mut state.storing {
            storing.followed = false;
        }
        let reader = state.reader.take();
        let ticket = state.seat(after);
        drop(state);
        self.part(reader);
        Some(ticket)
    }

    /// Where the stream stands for this reader.
    pub(crate) fn position(&self, ticket: u64) -> u64 {
        self.lock().reader(ticket).map_or(0, |reader| reader.at)
    }

    /// What the stream begins with.
    pub(crate) fn poll_first(&self, ticket: u64, cx: &mut Context<'_>) -> Poll<First> {
        let mut state = self.lock();
        let (newest, ended, ending) = (state.newest, state.ended, state.ending.clone());
        let Some(reader) = state.reader(ticket) else { return Poll::Ready(First::Nothing) };
        match (newest, ending) {
            (1, Some(ending)) => Poll::Ready(First::Reply(ending)),
            (1.., ..) => Poll::Ready(First::Said),
            _ if reader.leaves.is_some() => Poll::Ready(First::Said),
            _ if ended => Poll::Ready(First::Nothing),
            _ => {
                reader.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Takes out the newest message, the reply, because nobody can come back for it.
    pub(crate) fn take_reply(&self) -> Vec<u8> {
        self.lock().events.back_mut().map(mem::take).unwrap_or_default()
    }

    /// What comes next, as much of it as fits into one piece. `write` is given each event.
    pub(crate) fn poll_read(
        &self,
        ticket: u64,
        cx: &mut Context<'_>,
        mut write: impl FnMut(u64, &[u8]),
    ) -> Poll<Read> {
        let mut state = self.lock();
        let visible = state.visible();
        let State { events, newest, sent, ended, reader, .. } = &mut *state;
        let Some(reader) = reader.as_mut().filter(|reader| reader.ticket == ticket) else {
            return Poll::Ready(Read::End);
        };
        let until = reader.leaves.map_or(visible, |leaves| leaves.min(visible));
        if reader.at < until {
            let first = events.len() - (*newest - reader.at) as usize;
            let mut size = 0;
            for event in events.range(first..).take((until - reader.at) as usize) {
                reader.at += 1;
                write(reader.at, event);
                size += event.len() + OVERHEAD;
                if size >= FULL {
                    break;
                }
            }
            reader.unread -= size;
            *sent = reader.at.max(*sent);
            drop(state);
            self.room.notify_waiters();
            return Poll::Ready(Read::Events);
        }
        if reader.leaves.is_some_and(|leaves| leaves <= reader.at) {
            return Poll::Ready(Read::LetGo);
        }
        if *ended && visible == *newest {
            return Poll::Ready(Read::End);
        }
        reader.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// The reader is gone.
    pub(crate) fn detach(self: &Arc<Self>, ticket: u64) {
        let mut state = self.lock();
        if state.reader(ticket).is_some() {
            state.reader = None;
            self.bound(&mut state);
            self.line_up(&mut state);
            drop(state);
            self.room.notify_waiters();
        }
    }

    /// Tells a reader that was sent away, and those who waited for it.
    fn part(&self, reader: Option<Reader>) {
        wake(reader.and_then(|reader| reader.waker));
        self.room.notify_waiters();
    }
}

impl State {
    /// The number of the newest event that may be read.
    fn visible(&self) -> u64 {
        self.storing.as_ref().map_or(self.newest, |storing| storing.stored)
    }

    /// Takes the reader out that has read too little, unless it waits for the store itself.
    fn late_reader(&mut self) -> Option<Reader> {
        let visible = self.visible();
        self.reader.take_if(|reader| reader.at < visible)
    }

    /// The number of the oldest event that is kept.
    fn oldest(&self) -> u64 {
        self.newest + 1 - self.events.len() as u64
    }

    fn reader(&mut self, ticket: u64) -> Option<&mut Reader> {
        self.reader.as_mut().filter(|reader| reader.ticket == ticket)
    }

    /// Whom to wake when there is something to read.
    fn waker(&mut self) -> Option<Waker> {
        self.reader.as_mut()?.waker.take()
    }

    /// Seats a reader who has read all up to the event of this number. Gives its ticket.
    fn seat(&mut self, at: u64) -> u64 {
        // What is dropped cannot be read.
        let at = at.max(self.oldest() - 1);
        let left = (self.newest - at) as usize;
        let unread = self.events.iter().rev().take(left).map(|event| event.len() + OVERHEAD).sum();
        self.readers += 1;
        let ticket = self.readers;
        self.reader = Some(Reader { ticket, at, unread, leaves: None, waker: None });
        ticket
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.common.kept.remove(state.bytes + STREAM);
        if let Some(place) = state.place {
            self.common.kept.strike(place);
        }
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
