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
        jsonl::{replace_line_breaks, serve_with_budget},
        limits::{
            fair_eviction::{SlotTable, SlotUse},
            message_memory::{MessageBudget, MessageCharge},
        },
    },
};
use crate::{
    server::http::{
        HttpBody, HttpLimits, call_stream::MAX_CHUNK_BYTES, options::MESSAGES,
        request_headers::RequestHeaders, response, response::HttpResponse,
        response_body::EventSource, session::id::random_id,
    },
    task_set::TaskSet,
};

/// How much of what the server says is read at once.
const READ_CHUNK_BYTES: usize = 4 << 10;

/// The clients of 2024-11-05 that listen.
pub(crate) struct LegacySse {
    context: Arc<ServerContext>,
    limits: HttpLimits,
    tasks: Arc<TaskSet>,
    shutdown: Shutdown,
    budget: Arc<MessageBudget>,
    clients: Mutex<SseClients>,
}

struct SseClients {
    by_id: HashMap<Arc<str>, SseClient, RandomState>,
    slots: SlotTable<Arc<str>>,
    /// How many there ever were.
    count: u64,
}

struct SseClient {
    caller: Caller,
    principal: Option<Principal>,
    /// One at a time, so that no more than a message waits, however long it is.
    messages: mpsc::Sender<Bytes>,
}

impl LegacySse {
    pub(crate) fn new(
        context: Arc<ServerContext>,
        limits: HttpLimits,
        tasks: Arc<TaskSet>,
        shutdown: Shutdown,
        budget: Arc<MessageBudget>,
    ) -> Arc<Self> {
        let slots = SlotTable::new(limits.sessions);
        let clients = Mutex::new(SseClients { by_id: HashMap::default(), slots, count: 0 });
        Arc::new(LegacySse { context, limits, tasks, shutdown, budget, clients })
    }

    /// Opens the stream that carries all that the client hears.
    pub(crate) fn get(
        self: &Arc<Self>,
        parsed: &RequestHeaders<'_>,
        scope: RequestExtensions,
    ) -> HttpResponse {
        if !parsed.accept.events {
            return response::refuse(406, "This is a stream: accept text/event-stream");
        }
        let (messages, posted) = mpsc::channel(1);
        let (caller, principal) = (Caller::of(&scope), scope.get().cloned());
        let client = SseClient { caller, principal, messages };
        let Some(client_guard) = self.admit(client) else {
            return response::busy("The server is full: too many clients listen. Try again later");
        };
        let (pipe, writer) = duplex(MAX_CHUNK_BYTES);
        let reader = PostedLines { messages: posted, line: Bytes::new() };
        let (budget, context, shutdown) =
            (self.budget.clone(), self.context.clone(), self.shutdown.clone());
        // Without the seat: the response is what shows that its connection, which may carry others too, is in use.
        self.tasks.spawn(serve_with_budget(
            budget,
            None,
            context,
            scope,
            (reader, writer),
            shutdown,
        ));
        let feed = EventSource::LegacySse(LegacySseStream::new(client_guard, pipe));
        response::events(HttpBody::events(feed, self.limits.keep_alive))
    }

    /// Takes a message, which counts as `charge` until it is read; what comes of it goes to the client's stream.
    pub(crate) async fn post(
        &self,
        query: Option<&str>,
        message: Bytes,
        charge: MessageCharge,
        scope: RequestExtensions,
    ) -> HttpResponse {
        let gone = || response::refuse(404, "Nobody listens under this session: open a new stream");
        let Some(messages) = self.find(query, scope.get()) else { return gone() };
        let (line, charge) = (line(&message), Arc::new(charge));
        let line = if charge.is_large() { charge.charge(line) } else { line };
        drop(message);
        match timeout(self.limits.body, messages.send(line)).await {
            Ok(Ok(())) => response::status(202),
            Ok(Err(_)) => gone(),
            Err(_) => response::busy("Earlier messages still wait; try again later"),
        }
    }

    /// Gives a client a place under an id that nobody can guess. All have streams open, so only a caller that has more
    /// than half of the places makes room for another. None if there is no place.
    fn admit(self: &Arc<Self>, client: SseClient) -> Option<SseClientGuard> {
        let id: Arc<str> = random_id()?.into();
        let mut clients = self.lock();
        let SseClients { by_id, slots, count } = &mut *clients;
        *count += 1;
        let mut gone = None;
        if !slots.has_room(1) {
            let victim = slots.victim(&client.caller, *count, |id| slot_use(by_id, id))?;
            gone = clients.remove(&victim);
        }
        let SseClients { by_id, slots, count } = &mut *clients;
        slots.add(&client.caller, 1, *count, id.clone());
        by_id.insert(id.clone(), client);
        drop(clients);
        // Its stream ends when nothing more can be posted to it.
        drop(gone);
        Some(SseClientGuard { sse: self.clone(), id })
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

    fn lock(&self) -> MutexGuard<'_, SseClients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SseClients {
    fn remove(&mut self, id: &str) -> Option<SseClient> {
        let client = self.by_id.remove(id)?;
        let by_id = &self.by_id;
        self.slots.remove(&client.caller, 1, |id| !by_id.contains_key(id));
        Some(client)
    }
}

fn slot_use(clients: &HashMap<Arc<str>, SseClient, RandomState>, id: &str) -> SlotUse {
    if clients.contains_key(id) { SlotUse::Busy } else { SlotUse::Gone }
}

/// A message as a line.
fn line(message: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(message.len() + 1);
    line.extend_from_slice(message);
    replace_line_breaks(&mut line);
    line.push(b'\n');
    line.into()
}

/// A client's place, which is free again when its stream ends.
struct SseClientGuard {
    sse: Arc<LegacySse>,
    id: Arc<str>,
}

impl Drop for SseClientGuard {
    fn drop(&mut self) {
        // Its own statement, so that what is removed is dropped without the lock.
        let removed = self.sse.lock().remove(&self.id);
        drop(removed);
    }
}

/// What a client posts, as a stream of lines.
struct PostedLines {
    messages: mpsc::Receiver<Bytes>,
    line: Bytes,
}

impl AsyncRead for PostedLines {
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
pub(crate) struct LegacySseStream {
    lines: Lines,
    /// What has been said and not been sent.
    pending: Vec<u8>,
    // Dropped in this order: a call that speaks up when its client is gone must not be kept.
    pipe: DuplexStream,
    _client_guard: SseClientGuard,
}

impl LegacySseStream {
    fn new(client_guard: SseClientGuard, pipe: DuplexStream) -> Self {
        let mut pending = Vec::new();
        // Relative to where the client listens, because nobody here knows what that is called
        // outside.
        let endpoint = format!("{}?session={}", MESSAGES.trim_start_matches('/'), client_guard.id);
        sse::named(&mut pending, "endpoint", endpoint.as_bytes());
        LegacySseStream {
            lines: Lines::new(usize::MAX),
            pending,
            pipe,
            _client_guard: client_guard,
        }
    }

    /// All that is there to be sent, in one piece.
    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        while self.pending.len() < MAX_CHUNK_BYTES {
            if let Some(Line::Message(message)) = self.lines.next() {
                sse::named(&mut self.pending, "message", &message);
                continue;
            }
            match self.poll_read(cx) {
                Poll::Ready(true) => {}
                Poll::Ready(false) => break,
                Poll::Pending if self.pending.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        match self.pending.is_empty() {
            true => Poll::Ready(None),
            false => Poll::Ready(Some(std::mem::take(&mut self.pending).into())),
        }
    }

    /// Reads what the server says. False if it says no more.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let buffer = self.lines.buffer();
        buffer.reserve(READ_CHUNK_BYTES);
        let read = pin!(self.pipe.read_buf(buffer)).poll(cx);
        let buffer = self.lines.buffer();
        if read.is_pending() && buffer.is_empty() {
            // A client that hears nothing holds no buffer, not even that of a long message.
            *buffer = BytesMut::new();
        }
        read.map(|read| read.unwrap_or(0) > 0)
    }
}
