//! HTTP+SSE of 2024-11-05: a stream to the client, and a path that it posts to. Between the two
//! lies a connection of lines like any other.

use std::{
    collections::HashMap,
    future::Future,
    io,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use foldhash::fast::RandomState;
use tokio::{
    io::{AsyncRead, AsyncReadExt, DuplexStream, ReadBuf, duplex},
    sync::mpsc,
    time::timeout,
};
use wharf_model::{Caller, Principal, RequestExtensions};
use wharf_wire::{Line, Lines, sse};

use crate::{
    ServerContext, Shutdown,
    server::{
        jsonl::{serve_in, unbreak},
        limits::{
            fair_eviction::{Places, Use},
            message_memory::{Room, Taken},
        },
    },
};
use crate::{
    server::http::{
        HttpBody, HttpLimits, call_stream::FULL, options::MESSAGES, request_headers::Seen,
        response, response::Reply, response_body::Source, session::id::unguessable,
    },
    task_set::Tasks,
};

/// How much of what the server says is read at once.
const CHUNK: usize = 4 << 10;

/// The clients of 2024-11-05 that listen.
pub(crate) struct Sse2024 {
    host: Arc<ServerContext>,
    limits: HttpLimits,
    tasks: Arc<Tasks>,
    shutdown: Shutdown,
    room: Arc<Room>,
    clients: Mutex<Clients>,
}

struct Clients {
    by_id: HashMap<Arc<str>, Client, RandomState>,
    places: Places<Arc<str>>,
    /// How many there ever were.
    count: u64,
}

struct Client {
    caller: Caller,
    principal: Option<Principal>,
    /// One at a time, so that no more than a message waits, however long it is.
    messages: mpsc::Sender<Bytes>,
}

impl Sse2024 {
    pub(crate) fn new(
        host: Arc<ServerContext>,
        limits: HttpLimits,
        tasks: Arc<Tasks>,
        shutdown: Shutdown,
        room: Arc<Room>,
    ) -> Arc<Self> {
        let places = Places::new(limits.sessions);
        let clients = Mutex::new(Clients { by_id: HashMap::default(), places, count: 0 });
        Arc::new(Sse2024 { host, limits, tasks, shutdown, room, clients })
    }

    /// Opens the stream that carries all that the client hears.
    pub(crate) fn get(self: &Arc<Self>, seen: &Seen<'_>, scope: RequestExtensions) -> Reply {
        if !seen.accept.events {
            return response::refuse(406, "This is a stream: accept text/event-stream");
        }
        let (messages, posted) = mpsc::channel(1);
        let (caller, principal) = (Caller::of(&scope), scope.get().cloned());
        let client = Client { caller, principal, messages };
        let Some(seat) = self.admit(client) else {
            return response::busy("The server is full: too many clients listen. Try again later");
        };
        let (pipe, writer) = duplex(FULL);
        let reader = Posted { messages: posted, line: Bytes::new() };
        let (room, host, shutdown) = (self.room.clone(), self.host.clone(), self.shutdown.clone());
        // Without the seat: the response is what shows that its connection, which may carry others too, is in use.
        self.tasks.spawn(serve_in(room, None, host, scope, (reader, writer), shutdown));
        let feed = Source::Feed(Feed::new(seat, pipe));
        response::events(HttpBody::events(feed, self.limits.keep_alive))
    }

    /// Takes a message, which counts as `taken` until it is read; what comes of it goes to the client's stream.
    pub(crate) async fn post(
        &self,
        query: Option<&str>,
        message: Bytes,
        taken: Taken,
        scope: RequestExtensions,
    ) -> Reply {
        let gone = || response::refuse(404, "Nobody listens under this session: open a new stream");
        let Some(messages) = self.find(query, scope.get()) else { return gone() };
        let (line, taken) = (line(&message), Arc::new(taken));
        let line = if taken.is_large() { taken.charge(line) } else { line };
        drop(message);
        match timeout(self.limits.body, messages.send(line)).await {
            Ok(Ok(())) => response::status(202),
            Ok(Err(_)) => gone(),
            Err(_) => response::busy("Earlier messages still wait; try again later"),
        }
    }

    /// Gives a client a place under an id that nobody can guess. All have streams open, so only a caller that has more
    /// than half of the places makes room for another. None if there is no place.
    fn admit(self: &Arc<Self>, client: Client) -> Option<Seat> {
        let id: Arc<str> = unguessable()?.into();
        let mut clients = self.lock();
        let Clients { by_id, places, count } = &mut *clients;
        *count += 1;
        let mut gone = None;
        if !places.has_room(1) {
            let victim = places.victim(&client.caller, *count, |id| used_for(by_id, id))?;
            gone = clients.take_out(&victim);
        }
        let Clients { by_id, places, count } = &mut *clients;
        places.add(&client.caller, 1, *count, id.clone());
        by_id.insert(id.clone(), client);
        drop(clients);
        // Its stream ends when nothing more can be posted to it.
        drop(gone);
        Some(Seat { sse: self.clone(), id })
    }

    /// Where messages for a session go, if it is this caller's own.
    fn find(&self, query: Option<&str>, caller: Option<&Principal>) -> Option<mpsc::Sender<Bytes>> {
        let id = query?.split('&').find_map(|pair| pair.strip_prefix("session="))?;
        let clients = self.lock();
        let client = clients.by_id.get(id)?;
        // With all its rights: what is posted is done with those of the stream.
        let own = client.principal.as_ref() == caller;
        own.then(|| client.messages.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clients {
    fn take_out(&mut self, id: &str) -> Option<Client> {
        let client = self.by_id.remove(id)?;
        let by_id = &self.by_id;
        self.places.remove(&client.caller, 1, |id| !by_id.contains_key(id));
        Some(client)
    }
}

fn used_for(clients: &HashMap<Arc<str>, Client, RandomState>, id: &str) -> Use {
    if clients.contains_key(id) { Use::Busy } else { Use::Gone }
}

/// A message as a line.
fn line(message: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(message.len() + 1);
    line.extend_from_slice(message);
    unbreak(&mut line);
    line.push(b'\n');
    line.into()
}

/// A client's place, which is free again when its stream ends.
struct Seat {
    sse: Arc<Sse2024>,
    id: Arc<str>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        // Its own statement, so that what is removed is dropped without the lock.
        let removed = self.sse.lock().take_out(&self.id);
        drop(removed);
    }
}

/// What a client posts, as a stream of lines.
struct Posted {
    messages: mpsc::Receiver<Bytes>,
    line: Bytes,
}

impl AsyncRead for Posted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.line.is_empty() {
            self.line = ready!(self.messages.poll_recv(cx)).unwrap_or_default();
        }
        let size = self.line.len().min(buffer.remaining());
        buffer.put_slice(&self.line.split_to(size));
        Poll::Ready(Ok(()))
    }
}

/// What one client of 2024-11-05 hears.
pub(crate) struct Feed {
    lines: Lines,
    /// What has been said and not been sent.
    said: Vec<u8>,
    // Dropped in this order: a call that speaks up when its client is gone must not be kept.
    pipe: DuplexStream,
    _seat: Seat,
}

impl Feed {
    fn new(seat: Seat, pipe: DuplexStream) -> Self {
        let mut said = Vec::new();
        // Relative to where the client listens, because nobody here knows what that is called
        // outside.
        let endpoint = format!("{}?session={}", MESSAGES.trim_start_matches('/'), seat.id);
        sse::named(&mut said, "endpoint", endpoint.as_bytes());
        Feed { lines: Lines::new(usize::MAX), said, pipe, _seat: seat }
    }

    /// All that is there to be sent, in one piece.
    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        while self.said.len() < FULL {
            if let Some(Line::Message(message)) = self.lines.next() {
                sse::named(&mut self.said, "message", &message);
                continue;
            }
            match self.poll_read(cx) {
                Poll::Ready(true) => {}
                Poll::Ready(false) => break,
                Poll::Pending if self.said.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        match self.said.is_empty() {
            true => Poll::Ready(None),
            false => Poll::Ready(Some(std::mem::take(&mut self.said).into())),
        }
    }

    /// Reads what the server says. False if it says no more.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let buffer = self.lines.buffer();
        buffer.reserve(CHUNK);
        let read = pin!(self.pipe.read_buf(buffer)).poll(cx);
        let buffer = self.lines.buffer();
        if read.is_pending() && buffer.is_empty() {
            // A client that hears nothing holds no buffer, not even that of a long message.
            *buffer = BytesMut::new();
        }
        read.map(|read| read.unwrap_or(0) > 0)
    }
}
