//! One connection of lines: read, poll in place, write when the input is drained.

use std::{
    future::{Future, poll_fn},
    io,
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use bytes::{BufMut, Bytes, BytesMut};
use tokio::{
    io::{self as async_io, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::{Mutex, oneshot},
    task::JoinHandle,
    time::{Instant, timeout, timeout_at},
};
use wharf_model::{Error, Request, Scope};
use wharf_wire::{Codec, Connection, Line, Lines, Received};

use crate::{
    Host, Shutdown,
    batch::Batch,
    call::{Call, Shared},
    flight::{Flight, id_taken, no_place},
    output::Output,
};

/// How much is read at once.
const CHUNK: usize = 64 << 10;
/// How little room is left in a buffer when another is taken. A call under way keeps its buffer, so
/// many of them should share one.
const NARROW: usize = 4 << 10;
/// How much output may gather before it is written although there is more to read.
const FULL: usize = 64 << 10;
/// How long the last bytes may take to be read once the calls are over.
const FAREWELL: Duration = Duration::from_secs(1);
/// A call that holds the reader up for longer than this does not hold its reply back too.
const SLOW: Duration = Duration::from_millis(5);

/// Makes JSON one line. A line break becomes what JSON takes for the same: between its parts a tab
/// is white space too, and within a string it is as forbidden.
#[cfg(feature = "http")]
pub(crate) fn unbreak(json: &mut [u8]) {
    for byte in json {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b'\t';
        }
    }
}

/// Serves one client over a pair of byte streams, one message a line, until the client is gone or
/// `shutdown` stops. What `scope` holds goes along with every request.
///
/// Needs a tokio runtime with time enabled. Dropping the future drops every call under way.
pub async fn serve_lines<R, W>(
    host: Arc<Host>,
    scope: Scope,
    mut reader: R,
    writer: W,
    shutdown: Shutdown,
) where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (line, incoming, outgoing) = open(host, scope, writer);
    let (ended, end) = oneshot::channel::<()>();
    let mut reading = Owned(tokio::spawn(async move {
        incoming.run(&mut reader).await;
        drop(ended);
        // A socket that is closed with input unread takes back what the client has not read yet.
        let _ = async_io::copy(&mut reader, &mut async_io::sink()).await;
    }));
    let mut writing = Owned(tokio::spawn(outgoing.run()));
    let said = async {
        writing.ended().await;
        let _ = timeout(FAREWELL, reading.ended()).await;
    };
    line.supervise(async { drop(end.await) }, said, shutdown).await;
}

/// A task that ends with its owner: one that waits for a client that neither reads nor leaves.
struct Owned(JoinHandle<()>);

impl Owned {
    async fn ended(&mut self) {
        let _ = (&mut self.0).await;
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Sets a connection up. Its two halves may run wherever their streams want to be polled.
pub(crate) fn open<W>(
    host: Arc<Host>,
    scope: Scope,
    writer: W,
) -> (Supervisor, Incoming<W>, Outgoing<W>) {
    let limits = host.limits;
    let shared = Arc::new(Shared {
        output: Output::new(limits.output),
        flight: Flight::default(),
        closing: Shutdown::new(),
        host,
    });
    let sink = Arc::new(Mutex::new(writer));
    let incoming = Incoming {
        connection: Connection::new(shared.host.wire.clone()),
        lines: Lines::new(limits.message),
        shared: shared.clone(),
        scope: scope.shared(),
        fresh: true,
        hung_up: false,
        length: 0,
        sink: sink.clone(),
        out: Vec::with_capacity(FULL),
    };
    (Supervisor(shared.clone()), incoming, Outgoing { shared, sink })
}

/// Ends a connection in good order, or at once when it is dropped.
pub(crate) struct Supervisor(Arc<Shared>);

impl Supervisor {
    /// Waits for the end of the connection, then for the calls under way, within their grace, and
    /// until everything is said.
    pub(crate) async fn supervise(
        self,
        reading: impl Future<Output = ()>,
        said: impl Future<Output = ()>,
        shutdown: Shutdown,
    ) {
        let Shared { host, output, flight, closing } = &*self.0;
        tokio::select! {
            () = reading => {}
            () = shutdown.stopped() => {}
            () = output.broken() => {}
        }
        let deadline = Instant::now() + host.limits.grace;
        closing.stop();
        flight.close();
        let drained = async {
            tokio::select! {
                () = flight.idle() => {}
                () = output.broken() => {}
            }
        };
        let _ = timeout_at(deadline, drained).await;
        flight.abort_all();
        output.close();
        let _ = timeout_at(deadline + FAREWELL, said).await;
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.0.closing.stop();
        self.0.flight.abort_all();
        self.0.output.fail();
    }
}

/// The half of a connection that reads, and answers what can be answered at once.
pub(crate) struct Incoming<W> {
    shared: Arc<Shared>,
    scope: Scope,
    connection: Connection,
    lines: Lines,
    /// Whether nothing has been read yet.
    fresh: bool,
    hung_up: bool,
    /// How long the message at hand is.
    length: usize,
    sink: Arc<Mutex<W>>,
    out: Vec<u8>,
}

impl<W: AsyncWrite + Unpin> Incoming<W> {
    pub(crate) async fn run(mut self, mut reader: impl AsyncRead + Unpin) {
        let shared = self.shared.clone();
        let mut closing = pin!(shared.closing.stopped());
        loop {
            let buffer = self.lines.buffer();
            if buffer.capacity() - buffer.len() < NARROW {
                buffer.reserve(CHUNK);
            }
            let mut room = buffer.limit(CHUNK);
            let read = poll_fn(|cx| match pin!(reader.read_buf(&mut room)).poll(cx) {
                Poll::Pending => closing.as_mut().poll(cx).map(|()| None),
                read => read.map(Some),
            });
            let Some(read) = read.await else { return };
            // A client that is gone without a word is no different from one that closed its end.
            let ended = read.unwrap_or(0) == 0;
            shared.flight.reading(true);
            let closed = shared.closing.is_stopped();
            if !closed {
                self.drain(ended).await;
            }
            shared.flight.reading(false);
            if closed || ended || self.hung_up {
                return;
            }
        }
    }

    /// Works on every line there is, then writes what came of it.
    async fn drain(&mut self, ended: bool) {
        while let Some(line) = self.next_line(ended) {
            // The last reply is held back by nothing.
            let more = !self.lines.buffer().is_empty();
            let began = more.then(Instant::now);
            match line {
                Line::Message(message) if self.is_http(&message) => break,
                Line::Message(message) => self.message(message).await,
                Line::TooLong => {
                    let refusal = self.connection.too_long();
                    self.received(refusal, None).await;
                }
            }
            if self.out.len() >= FULL || began.is_some_and(|began| began.elapsed() > SLOW) {
                self.flush().await;
            }
        }
        self.flush().await;
    }

    fn next_line(&mut self, ended: bool) -> Option<Line> {
        let line = self.lines.next();
        if let Some(Line::Message(message)) = &line
            && message.len() > CHUNK
        {
            // What follows must not keep the buffer of a long line, nor an idle client any.
            let buffer = self.lines.buffer();
            *buffer = BytesMut::from(&buffer[..]);
        }
        if ended { line.or_else(|| self.lines.finish()) } else { line }
    }

    /// Hangs up on a client that opens with an HTTP request: a web page can make a browser send
    /// one here, with messages in its body.
    fn is_http(&mut self, first: &[u8]) -> bool {
        if !std::mem::take(&mut self.fresh) {
            return false;
        }
        self.hung_up = first.ends_with(b" HTTP/1.1") || first.ends_with(b" HTTP/1.0");
        self.hung_up
    }

    async fn message(&mut self, message: Bytes) {
        self.length = message.len();
        match self.connection.receive(message) {
            Received::Batch(members) => {
                let batch = Batch::new(self.shared.clone());
                for member in members {
                    self.received(member, Some(&batch)).await;
                }
                batch.hold(self.length);
                // What the members have said goes out before their replies.
                self.flush().await;
                drop(batch);
                self.shared.output.room().await;
            }
            received => self.received(received, None).await,
        }
    }

    async fn received(&mut self, received: Received, batch: Option<&Arc<Batch>>) {
        match received {
            Received::Call(request, codec) => self.call(request, codec, batch).await,
            Received::Reply(reply, _) => self.reply(&reply, batch),
            Received::Answer(number, answer) => self.shared.flight.answer(number, answer),
            Received::Cancel(id) => {
                self.shared.flight.cancel(&id);
                // A call that is dropped takes its questions back, however full the output is.
                self.shared.output.room().await;
            }
            // Batches do not nest.
            Received::Batch(_) | Received::Ignore => {}
        }
    }

    fn reply(&mut self, reply: &[u8], batch: Option<&Arc<Batch>>) {
        match batch {
            Some(batch) => batch.add(reply),
            None => {
                self.out.extend_from_slice(reply);
                self.out.push(b'\n');
            }
        }
    }

    async fn call(&mut self, mut request: Request, codec: Codec, batch: Option<&Arc<Batch>>) {
        if let Err(error) = admit(&self.shared, &codec, batch).await {
            let mut refusal = Vec::new();
            codec.refuse(&error, &mut refusal);
            return self.reply(&refusal, batch);
        }
        request.scope = self.scope.clone();
        let before = self.out.len();
        let mut call = Call::start(self.shared.clone(), request, codec, batch.cloned());
        if call.run_in_place(&mut self.out) {
            return;
        }
        // What the call has said goes out before whatever it says next.
        if self.out.len() > before || call.is_listen() {
            self.flush().await;
        }
        // A batch counts its message itself, because any of its calls keeps all of it.
        call.launch(if batch.is_none() { self.length } else { 0 });
    }

    /// Writes what has gathered: here if the client is ready for it, else behind what waits.
    async fn flush(&mut self) {
        if self.out.is_empty() {
            return;
        }
        let Ok(mut sink) = self.sink.try_lock() else {
            return self.shared.output.send(&mut self.out).await;
        };
        write(&mut *sink, &self.shared.output, &self.out).await;
        self.out.clear();
        self.out.shrink_to(2 * FULL);
    }
}

/// Whether the call may begin; it may have to wait for another to end.
async fn admit(shared: &Shared, codec: &Codec, batch: Option<&Arc<Batch>>) -> Result<(), Error> {
    let (flight, limits) = (&shared.flight, &shared.host.limits);
    if codec.is_silent() {
        return Ok(());
    }
    if flight.holds(codec) {
        return Err(id_taken());
    }
    let free = if batch.is_some_and(|batch| batch.is_full()) {
        false
    } else if codec.is_listen() {
        flight.listens() < limits.listens && flight.has_memory(limits)
    } else {
        // A client may be about to cancel what holds it up, so reading goes on after a while.
        flight.has_slot(limits)
            || timeout(limits.patience, flight.slot(limits)).await.unwrap_or(false)
    };
    if free { Ok(()) } else { Err(no_place()) }
}

/// The half of a connection that writes what calls beside the reader have to say.
pub(crate) struct Outgoing<W> {
    shared: Arc<Shared>,
    sink: Arc<Mutex<W>>,
}

impl<W: AsyncWrite + Unpin> Outgoing<W> {
    pub(crate) async fn run(self) {
        let output = &self.shared.output;
        while output.ready().await {
            write(&mut *self.sink.lock().await, output, &[]).await;
        }
        let _ = self.sink.lock().await.shutdown().await;
    }
}

/// Writes what waits in `output`, then `last`.
async fn write(sink: &mut (impl AsyncWrite + Unpin), output: &Output, last: &[u8]) {
    let waiting = output.take();
    let written = async {
        for bytes in [&waiting, last] {
            if !bytes.is_empty() {
                sink.write_all(bytes).await?;
            }
        }
        sink.flush().await
    };
    let written: io::Result<()> = written.await;
    if written.is_err() {
        output.fail();
    }
}
