//! HTTP+SSE transport of revision 2024-11-05: a stream of server-sent events to the client, and a path for its
//! POSTs. A JSON lines connection connects the two.

use std::{
    collections::HashMap,
    future::Future,
    io,
    pin::{Pin, pin},
    sync::{Arc, MutexGuard},
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use foldhash::fast::RandomState;
use tokio::{
    io::{AsyncRead, AsyncReadExt, DuplexStream, ReadBuf, duplex},
    sync::mpsc,
    time::timeout,
};
use wharf_model::{Caller, Lock, Principal, RefusalReason, RequestExtensions};
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
        HttpBody, HttpLimits,
        options::MESSAGES,
        request_checks,
        request_headers::RequestHeaders,
        response,
        response::HttpResponse,
        response_body::{EventSource, MAX_CHUNK_BYTES},
        session::id::random_id,
    },
    task_set::TaskSet,
};

/// Number of bytes in one read of the server's output.
const READ_CHUNK_BYTES: usize = 4 << 10;

/// Clients of HTTP+SSE with an open stream.
pub(crate) struct LegacySse {
    context: Arc<ServerContext>,
    limits: HttpLimits,
    tasks: Arc<TaskSet>,
    shutdown: Shutdown,
    budget: Arc<MessageBudget>,
    clients: Lock<SseClients>,
}

struct SseClients {
    by_id: HashMap<Arc<str>, SseClient, RandomState>,
    slots: SlotTable<Arc<str>>,
    /// Number of clients that ever connected.
    count: u64,
}

struct SseClient {
    caller: Caller,
    principal: Option<Principal>,
    /// Capacity of one, so that at most one message waits, however long it is.
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
        let clients = Lock::new(SseClients { by_id: HashMap::default(), slots, count: 0 });
        Arc::new(LegacySse { context, limits, tasks, shutdown, budget, clients })
    }

    /// Opens the stream of events.
    pub(crate) fn get(
        self: &Arc<Self>,
        parsed: &RequestHeaders<'_>,
        scope: RequestExtensions,
    ) -> HttpResponse {
        if let Some(refusal) = request_checks::check_legacy_sse_get(parsed) {
            return refusal;
        }
        let (messages, posted) = mpsc::channel(1);
        let (caller, principal) = (Caller::of(&scope), scope.get().cloned());
        let client = SseClient { caller, principal, messages };
        let Some(client_guard) = self.admit(client) else {
            let problem = "The server is full: too many open streams. Try again later";
            return response::busy(RefusalReason::TooManySessions, problem);
        };
        let (pipe, writer) = duplex(MAX_CHUNK_BYTES);
        let reader = PostedLines { messages: posted, line: Bytes::new() };
        let (budget, context, shutdown) =
            (self.budget.clone(), self.context.clone(), self.shutdown.clone());
        // Without the slot: the connection may carry other requests too, and the open response shows that it is
        // in use.
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

    /// Accepts a message, which counts as `charge` until it is read. Its reply goes to the client's stream.
    pub(crate) async fn post(
        &self,
        query: Option<&str>,
        message: Bytes,
        charge: MessageCharge,
        scope: RequestExtensions,
    ) -> HttpResponse {
        let gone = || {
            let problem = "There is no open stream for this session: open a new one";
            response::refuse_for(RefusalReason::UnknownSession, 404, problem)
        };
        let Some(messages) = self.find(query, scope.get()) else { return gone() };
        let (line, charge) = (line(&message), Arc::new(charge));
        let line = if charge.is_large() { charge.charge(line) } else { line };
        drop(message);
        match timeout(self.limits.body, messages.send(line)).await {
            Ok(Ok(())) => response::status(202),
            Ok(Err(_)) => gone(),
            Err(_) => response::busy(
                RefusalReason::TooManyCalls,
                "Earlier messages of this session are still waiting: try again later",
            ),
        }
    }

    /// Inserts a client under a random id. All clients have open streams, so only a caller with more than half
    /// of the slots loses one to a newcomer. None if there is no slot.
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
        // Its stream ends when its channel for messages closes.
        drop(gone);
        Some(SseClientGuard { sse: self.clone(), id })
    }

    /// Finds the channel of a session for its owner.
    fn find(&self, query: Option<&str>, caller: Option<&Principal>) -> Option<mpsc::Sender<Bytes>> {
        let id = query?.split('&').find_map(|pair| pair.strip_prefix("session="))?;
        let clients = self.lock();
        let client = clients.by_id.get(id)?;
        // With the same rights: messages run with those of the stream.
        let own = client.principal.as_ref() == caller;
        own.then(|| client.messages.clone())
    }

    fn lock(&self) -> MutexGuard<'_, SseClients> {
        self.clients.lock()
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

/// Converts a message to a line.
fn line(message: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(message.len() + 1);
    line.extend_from_slice(message);
    replace_line_breaks(&mut line);
    line.push(b'\n');
    line.into()
}

/// Slot of a client, released when its stream ends.
struct SseClientGuard {
    sse: Arc<LegacySse>,
    id: Arc<str>,
}

impl Drop for SseClientGuard {
    fn drop(&mut self) {
        // A statement of its own, so that the client is dropped after the lock is released.
        let removed = self.sse.lock().remove(&self.id);
        drop(removed);
    }
}

/// Messages of a client as a stream of lines.
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

/// Messages to one client of HTTP+SSE, as events.
pub(crate) struct LegacySseStream {
    lines: Lines,
    /// Encoded events that were not sent yet.
    pending: Vec<u8>,
    // Dropped in this order: output of calls after the disconnect must not be kept.
    pipe: DuplexStream,
    _client_guard: SseClientGuard,
}

impl LegacySseStream {
    fn new(client_guard: SseClientGuard, pipe: DuplexStream) -> Self {
        let mut pending = Vec::new();
        // Relative to the URL of the stream, because the external URL is not known here.
        let endpoint = format!("{}?session={}", MESSAGES.trim_start_matches('/'), client_guard.id);
        sse::named(&mut pending, "endpoint", endpoint.as_bytes());
        LegacySseStream {
            lines: Lines::new(usize::MAX),
            pending,
            pipe,
            _client_guard: client_guard,
        }
    }

    /// Polls for the next chunk of encoded events.
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

    /// Reads the server's output. False at the end.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let buffer = self.lines.buffer();
        buffer.reserve(READ_CHUNK_BYTES);
        let read = pin!(self.pipe.read_buf(buffer)).poll(cx);
        let buffer = self.lines.buffer();
        if read.is_pending() && buffer.is_empty() {
            // An idle client has no buffer, not even that of a long message before.
            *buffer = BytesMut::new();
        }
        read.map(|read| read.unwrap_or(0) > 0)
    }
}
