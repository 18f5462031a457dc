//! WebSocket as a JSON lines connection: each message is one line.

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
use wharf_model::{RefusalReason, RequestExtensions};

use crate::server::http::websocket::{
    frames,
    frames::{FrameParser, FramePiece},
};
use crate::{
    ServerContext, Shutdown,
    server::{
        http::{HttpLimits, auth::AuthExpiry},
        jsonl::serve_without_write_timeout,
        observed::ObservedPeer,
    },
};

/// Size of a read, and of the frames of a long message, in bytes.
const CHUNK_BYTES: usize = 16 << 10;

/// Size of a read from a client that has sent little, in bytes.
const SMALL_READ_BYTES: usize = 4 << 10;

/// Close code for expired credentials: 3000 is registered as Unauthorized.
const UNAUTHORIZED: u16 = 3000;

/// Time that such a connection remains after the grace period of its calls.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Control frame that the reader has for the writer. A later one replaces one that was not sent yet, as RFC
/// 6455 allows for pongs.
#[derive(Clone)]
enum PendingControl {
    Nothing,
    Pong(Bytes),
    Close(Option<CloseCode>),
}

/// Serves one client until it disconnects or `shutdown` stops.
pub(super) async fn serve<S>(
    context: Arc<ServerContext>,
    scope: RequestExtensions,
    stream: S,
    limits: HttpLimits,
    shutdown: Shutdown,
) where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let ping = limits.keep_alive.saturating_mul(2);
    let (reader, writer) = async_io::split(stream);
    let (pending_control, pending_control_rx) = watch::channel(PendingControl::Nothing);
    let (pipe, lines) = duplex(CHUNK_BYTES);
    let expiry = scope.get::<AuthExpiry>().map(|expiry| expiry.0);
    let close_sender = pending_control.clone();
    let mut incoming = FrameReader::new(reader, pending_control, ping.saturating_mul(3));
    incoming.expiry = expiry.map(|expiry| Box::pin(sleep_until(expiry)));
    let outgoing = FrameWriter::new(writer, limits.write);
    let peer = ObservedPeer::new(&context, &scope);
    incoming.peer = Some(peer.clone());
    // The reader pauses while too many calls are in flight, and the expiry must not wait for that.
    let ended = async move {
        let Some(expiry) = expiry else { return std::future::pending().await };
        sleep_until(expiry).await;
        close_sender.send_replace(PendingControl::Close(Some(CloseCode::from(UNAUTHORIZED))));
        sleep(limits.grace.saturating_add(CLOSE_TIMEOUT)).await;
    };
    let served = async {
        tokio::select! {
            () = serve_without_write_timeout(context, scope, incoming, pipe, shutdown.clone()) => Ok(()),
            () = ended => Err(io::ErrorKind::TimedOut.into()),
        }
    };
    let written = async {
        let written = outgoing.run(lines, pending_control_rx, ping, &shutdown).await;
        if written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut) {
            peer.slow_client();
        }
        written
    };
    // A client that cannot be written to is gone, and its calls are cancelled.
    let _ = tokio::try_join!(served, written);
}

/// Reads messages as lines.
struct FrameReader<R> {
    half: R,
    input: BytesMut,
    frames: FrameParser,
    pending_control: watch::Sender<PendingControl>,
    state: ReadState,
    /// True if the last read returned many bytes.
    large_reads: bool,
    /// Time of the last read.
    last_read: Instant,
    /// Longest time without input.
    timeout_after: Duration,
    silence_timer: Pin<Box<Sleep>>,
    /// Expiry of the client's credentials.
    expiry: Option<Pin<Box<Sleep>>>,
    /// Client, to report a violation of the WebSocket protocol.
    peer: Option<ObservedPeer>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadState {
    Open,
    /// No more messages follow, and the reader of lines has yet to be told.
    Ended,
    /// Further input is discarded, so that the client can still read the close frame.
    Discarding,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    fn new(
        half: R,
        pending_control: watch::Sender<PendingControl>,
        timeout_after: Duration,
    ) -> Self {
        FrameReader {
            half,
            input: BytesMut::new(),
            frames: FrameParser::default(),
            pending_control,
            state: ReadState::Open,
            large_reads: false,
            last_read: Instant::now(),
            timeout_after,
            silence_timer: Box::pin(sleep(timeout_after)),
            expiry: None,
            peer: None,
        }
    }

    /// Writes available lines into `buffer`. Waits for input only if there is none.
    fn poll_lines(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<()> {
        let before = buffer.filled().len();
        while self.state == ReadState::Open && buffer.remaining() > 0 {
            if self.expiry.as_mut().is_some_and(|expiry| expiry.as_mut().poll(cx).is_ready()) {
                self.close(Some(CloseCode::from(UNAUTHORIZED)));
                break;
            }
            match self.frames.next(&mut self.input, buffer.remaining()) {
                Ok(Some(FramePiece::Text(part))) => buffer.put_slice(&part),
                Ok(Some(FramePiece::End)) => buffer.put_slice(b"\n"),
                Ok(Some(FramePiece::Ping(data))) => {
                    drop(self.pending_control.send_replace(PendingControl::Pong(data)))
                }
                Ok(Some(FramePiece::Pong)) => {}
                Ok(Some(FramePiece::Close(code))) => self.close(code),
                Err(code) => {
                    if let Some(peer) = &self.peer {
                        let detail = format!("a WebSocket frame is invalid: close code {code}");
                        peer.refused(RefusalReason::InvalidRequest, &detail);
                    }
                    self.close(Some(code));
                }
                Ok(None) if buffer.filled().len() > before => break,
                Ok(None) => {
                    if !ready!(self.poll_more(cx)) {
                        self.state = ReadState::Ended;
                    }
                }
            }
        }
        Poll::Ready(())
    }

    fn close(&mut self, code: Option<CloseCode>) {
        self.state = ReadState::Ended;
        self.pending_control.send_replace(PendingControl::Close(code));
    }

    /// Reads more input. False at the end, or after too long a silence.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        // Most clients are idle, so only clients that send much get a large buffer.
        self.input.reserve(if self.large_reads { CHUNK_BYTES } else { SMALL_READ_BYTES });
        if let Poll::Ready(read) = pin!(self.half.read_buf(&mut self.input)).poll(cx) {
            self.last_read = Instant::now();
            let size = read.unwrap_or(0);
            self.large_reads = size >= SMALL_READ_BYTES;
            return Poll::Ready(size > 0);
        }
        if self.large_reads && self.input.is_empty() {
            (self.input, self.large_reads) = (BytesMut::new(), false);
            return self.poll_more(cx);
        }
        loop {
            ready!(self.silence_timer.as_mut().poll(cx));
            let left = self.timeout_after.saturating_sub(self.last_read.elapsed());
            if left.is_zero() {
                return Poll::Ready(false);
            }
            self.silence_timer.set(sleep(left));
        }
    }

    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while ready!(self.poll_more(cx)) {
            self.input.clear();
        }
        Poll::Ready(())
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for FrameReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match self.state {
            ReadState::Open => ready!(self.poll_lines(cx, buffer)),
            ReadState::Ended => {}
            ReadState::Discarding => ready!(self.poll_rest(cx)),
        }
        if self.state == ReadState::Ended && buffer.filled().len() == before {
            self.state = ReadState::Discarding;
        }
        Poll::Ready(Ok(()))
    }
}

/// Writes lines as messages.
struct FrameWriter<W> {
    half: W,
    /// Longest time that a write may take.
    timeout_after: Duration,
    /// Output that is not in a frame yet.
    queued: BytesMut,
    /// True if the first frames of a message were sent, but not its last.
    mid_message: bool,
    frames: Vec<u8>,
}

impl<W: AsyncWrite + Unpin> FrameWriter<W> {
    fn new(half: W, timeout_after: Duration) -> Self {
        FrameWriter {
            half,
            timeout_after,
            queued: BytesMut::new(),
            mid_message: false,
            frames: Vec::new(),
        }
    }

    /// Sends messages, pongs and pings, and at the end a close frame.
    async fn run(
        mut self,
        mut lines: DuplexStream,
        mut pending_control: watch::Receiver<PendingControl>,
        every: Duration,
        shutdown: &Shutdown,
    ) -> io::Result<()> {
        let mut ping = pin!(sleep(every));
        let reason = loop {
            self.queued.reserve(CHUNK_BYTES);
            tokio::select! {
                biased;
                Ok(()) = pending_control.changed() => match pending_control.borrow_and_update().clone() {
                    PendingControl::Nothing => {}
                    PendingControl::Pong(data) => frames::control(&mut self.frames, Control::Pong, &data),
                    PendingControl::Close(reason) => break reason,
                },
                read = lines.read_buf(&mut self.queued) => match read? {
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
        timeout(self.timeout_after, self.half.shutdown()).await??;
        // Output of the remaining calls is discarded.
        async_io::copy(&mut lines, &mut async_io::sink()).await?;
        Ok(())
    }

    /// Puts complete messages into frames, and a long one as far as it is available.
    fn frame(&mut self) {
        while let Some(end) = self.queued.iter().position(|byte| *byte == b'\n') {
            frames::text(&mut self.frames, &self.queued[..end], !self.mid_message, true);
            self.mid_message = false;
            self.queued.advance(end + 1);
        }
        if self.queued.len() >= CHUNK_BYTES {
            frames::text(&mut self.frames, &self.queued, !self.mid_message, false);
            self.mid_message = true;
            self.queued.clear();
        }
    }

    async fn send(&mut self) -> io::Result<()> {
        let mut rest = &self.frames[..];
        while !rest.is_empty() {
            let sent = timeout(self.timeout_after, self.half.write(rest)).await??;
            if sent == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            rest = &rest[sent..];
        }
        timeout(self.timeout_after, self.half.flush()).await??;
        self.frames.clear();
        self.frames.shrink_to(CHUNK_BYTES);
        Ok(())
    }
}
