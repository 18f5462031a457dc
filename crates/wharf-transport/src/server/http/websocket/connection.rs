//! A WebSocket as a connection of lines: a message is a line.

use std::{
    future::Future,
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, Bytes, BytesMut};
use tokio::{
    io::{
        self as async_io, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream,
        ReadBuf, duplex,
    },
    sync::watch,
    time::{Instant, Sleep, sleep, sleep_until, timeout},
};
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Control};
use wharf_model::RequestExtensions;

use crate::server::http::websocket::{
    frames,
    frames::{Frames, Piece},
};
use crate::{
    ServerContext, Shutdown, serve_lines,
    server::http::{HttpLimits, auth::Until},
};

/// How much is read at once, and how much of a longer message goes into one frame.
const CHUNK: usize = 16 << 10;

/// How much is read at once from a client that has sent little.
const LITTLE: usize = 4 << 10;

/// Why a connection ends whose credentials have expired: 3000 is registered as Unauthorized.
const UNAUTHORIZED: u16 = 3000;

/// How much longer than its calls such a connection may last.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What the reading half has for the client. A later note replaces one that was not sent yet, as
/// the answer to a later ping may.
#[derive(Clone)]
enum Note {
    Nothing,
    Pong(Bytes),
    Close(Option<CloseCode>),
}

/// Serves one client until it is gone or `shutdown` stops.
pub(super) async fn serve<S>(
    host: Arc<ServerContext>,
    scope: RequestExtensions,
    stream: S,
    limits: HttpLimits,
    shutdown: Shutdown,
) where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let ping = limits.keep_alive.saturating_mul(2);
    let (reader, writer) = async_io::split(stream);
    let (notes, noted) = watch::channel(Note::Nothing);
    let (pipe, lines) = duplex(CHUNK);
    let until = scope.get::<Until>().map(|until| until.0);
    let goodbye = notes.clone();
    let mut incoming = Incoming::new(reader, notes, ping.saturating_mul(3));
    incoming.until = until.map(|until| Box::pin(sleep_until(until)));
    let outgoing = Outgoing::new(writer, limits.write);
    // Lines are not read while too many calls are under way: the end must not wait for that.
    let ended = async move {
        let Some(until) = until else { return std::future::pending().await };
        sleep_until(until).await;
        goodbye.send_replace(Note::Close(Some(CloseCode::from(UNAUTHORIZED))));
        sleep(limits.grace.saturating_add(LAST_WORDS)).await;
    };
    let served = async {
        tokio::select! {
            () = serve_lines(host, scope, incoming, pipe, shutdown.clone()) => Ok(()),
            () = ended => Err(io::ErrorKind::TimedOut.into()),
        }
    };
    // A client that cannot be written to is gone, and its calls with it.
    let _ = tokio::try_join!(served, outgoing.run(lines, noted, ping, &shutdown));
}

/// Reads messages as lines.
struct Incoming<R> {
    half: R,
    input: BytesMut,
    frames: Frames,
    notes: watch::Sender<Note>,
    state: State,
    /// Whether the last read brought much.
    much: bool,
    /// When something last came.
    heard: Instant,
    /// How long nothing may come.
    patience: Duration,
    silence: Pin<Box<Sleep>>,
    /// When the client may not be here any longer.
    until: Option<Pin<Box<Sleep>>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// No more messages come, and the connection of lines does not know yet.
    Over,
    /// What still comes is thrown away, so that the client can read our last words.
    Told,
}

impl<R: AsyncRead + Unpin> Incoming<R> {
    fn new(half: R, notes: watch::Sender<Note>, patience: Duration) -> Self {
        Incoming {
            half,
            input: BytesMut::new(),
            frames: Frames::default(),
            notes,
            state: State::Open,
            much: false,
            heard: Instant::now(),
            patience,
            silence: Box::pin(sleep(patience)),
            until: None,
        }
    }

    /// Puts the lines that are there into `buffer`, and more as soon as they come if it is empty.
    fn poll_lines(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<()> {
        let before = buffer.filled().len();
        while self.state == State::Open && buffer.remaining() > 0 {
            if self.until.as_mut().is_some_and(|until| until.as_mut().poll(cx).is_ready()) {
                self.close(Some(CloseCode::from(UNAUTHORIZED)));
                break;
            }
            match self.frames.next(&mut self.input, buffer.remaining()) {
                Ok(Some(Piece::Text(part))) => buffer.put_slice(&part),
                Ok(Some(Piece::End)) => buffer.put_slice(b"\n"),
                Ok(Some(Piece::Ping(data))) => drop(self.notes.send_replace(Note::Pong(data))),
                Ok(Some(Piece::Pong)) => {}
                Ok(Some(Piece::Close(code))) => self.close(code),
                Err(code) => self.close(Some(code)),
                Ok(None) if buffer.filled().len() > before => break,
                Ok(None) => {
                    if !ready!(self.poll_more(cx)) {
                        self.state = State::Over;
                    }
                }
            }
        }
        Poll::Ready(())
    }

    fn close(&mut self, code: Option<CloseCode>) {
        self.state = State::Over;
        self.notes.send_replace(Note::Close(code));
    }

    /// Reads on. False if nothing comes any more, or nothing came for too long.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        // Most clients are idle most of the time: only who sends much gets much room.
        self.input.reserve(if self.much { CHUNK } else { LITTLE });
        if let Poll::Ready(read) = pin!(self.half.read_buf(&mut self.input)).poll(cx) {
            self.heard = Instant::now();
            let size = read.unwrap_or(0);
            self.much = size >= LITTLE;
            return Poll::Ready(size > 0);
        }
        if self.much && self.input.is_empty() {
            (self.input, self.much) = (BytesMut::new(), false);
            return self.poll_more(cx);
        }
        loop {
            ready!(self.silence.as_mut().poll(cx));
            let left = self.patience.saturating_sub(self.heard.elapsed());
            if left.is_zero() {
                return Poll::Ready(false);
            }
            self.silence.set(sleep(left));
        }
    }

    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while ready!(self.poll_more(cx)) {
            self.input.clear();
        }
        Poll::Ready(())
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Incoming<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match self.state {
            State::Open => ready!(self.poll_lines(cx, buffer)),
            State::Over => {}
            State::Told => ready!(self.poll_rest(cx)),
        }
        if self.state == State::Over && buffer.filled().len() == before {
            self.state = State::Told;
        }
        Poll::Ready(Ok(()))
    }
}

/// Writes lines as messages.
struct Outgoing<W> {
    half: W,
    /// How long the client may read nothing.
    patience: Duration,
    /// What the server has said and is in no frame yet.
    said: BytesMut,
    /// Whether a message has begun and not ended.
    midway: bool,
    frames: Vec<u8>,
}

impl<W: AsyncWrite + Unpin> Outgoing<W> {
    fn new(half: W, patience: Duration) -> Self {
        Outgoing { half, patience, said: BytesMut::new(), midway: false, frames: Vec::new() }
    }

    /// Sends what the server says, pongs and pings, and at last why the connection ends.
    async fn run(
        mut self,
        mut lines: DuplexStream,
        mut notes: watch::Receiver<Note>,
        every: Duration,
        shutdown: &Shutdown,
    ) -> io::Result<()> {
        let mut ping = pin!(sleep(every));
        let reason = loop {
            self.said.reserve(CHUNK);
            tokio::select! {
                biased;
                Ok(()) = notes.changed() => match notes.borrow_and_update().clone() {
                    Note::Nothing => {}
                    Note::Pong(data) => frames::control(&mut self.frames, Control::Pong, &data),
                    Note::Close(reason) => break reason,
                },
                read = lines.read_buf(&mut self.said) => match read? {
                    0 if shutdown.is_stopped() => break Some(CloseCode::Away),
                    0 => break Some(CloseCode::Normal),
                    _ => self.frame(),
                },
                () = &mut ping => {
                    ping.set(sleep(every));
                    frames::control(&mut self.frames, Control::Ping, &[]);
                }
            }
            self.send().await?;
        };
        frames::close(&mut self.frames, reason);
        self.send().await?;
        timeout(self.patience, self.half.shutdown()).await??;
        // Nobody hears what calls under way say before they end.
        async_io::copy(&mut lines, &mut async_io::sink()).await?;
        Ok(())
    }

    /// Puts whole messages into frames, and of a long one what is there.
    fn frame(&mut self) {
        while let Some(end) = self.said.iter().position(|byte| *byte == b'\n') {
            frames::text(&mut self.frames, &self.said[..end], !self.midway, true);
            self.midway = false;
            self.said.advance(end + 1);
        }
        if self.said.len() >= CHUNK {
            frames::text(&mut self.frames, &self.said, !self.midway, false);
            self.midway = true;
            self.said.clear();
        }
    }

    async fn send(&mut self) -> io::Result<()> {
        let mut rest = &self.frames[..];
        while !rest.is_empty() {
            let sent = timeout(self.patience, self.half.write(rest)).await??;
            if sent == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            rest = &rest[sent..];
        }
        timeout(self.patience, self.half.flush()).await??;
        self.frames.clear();
        self.frames.shrink_to(CHUNK);
        Ok(())
    }
}
