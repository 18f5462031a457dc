//! Byte stream with timeouts: the peer must send request heads and read responses in time.

use std::{
    io::{self, IoSlice},
    pin::{Pin, pin},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, BufMut, Bytes};
use memchr::{memchr, memchr2};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    task::coop::unconstrained,
    time::{Instant, Sleep, sleep, sleep_until},
};

use crate::server::http::connection::http1::Http1State;
use crate::server::limits::{connection_slots::SlotGuard, write_timeout::WriteTimer};

/// Longest time that input is still read after the last write.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
/// Largest response, head and body, that is written with one system call.
const MAX_COALESCED_BYTES: usize = 1 << 10;
/// Largest number of bytes that are still read after the last write.
const MAX_LINGER_BYTES: usize = 32 << 20;
/// Longest request line that is inspected.
const MAX_REQUEST_LINE_BYTES: usize = 128 << 10;

/// Timeouts of a connection.
pub(crate) struct IoTimeouts {
    /// For the head of a request, while the client has to send one.
    pub(crate) head: Option<(Duration, Http1State)>,
    /// For the peer to read what is written.
    pub(crate) write: Duration,
}

/// Byte stream that starts with bytes that were read before. It fails if the peer does not read, or does not
/// send a request head, within its timeout.
pub(crate) struct TimedIo<S> {
    stream: S,
    prefix: Bytes,
    timeouts: IoTimeouts,
    /// Timer of the request head. It may fire early.
    head_timer: Option<Pin<Box<Sleep>>>,
    write_timer: WriteTimer,
    /// Set once nothing more is written.
    linger_timer: Option<Pin<Box<Sleep>>>,
    /// Number of bytes that may still be read then.
    linger_bytes: usize,
    /// Request line of which only a part has arrived.
    line: Vec<u8>,
    /// Slot of the connection, kept when the protocol changes to WebSocket.
    slot_guard: SlotGuard,
}

impl<S> TimedIo<S> {
    pub(crate) fn new(
        stream: S,
        prefix: Bytes,
        timeouts: IoTimeouts,
        slot_guard: SlotGuard,
    ) -> Self {
        let (head_timer, linger_timer) = (None, None);
        let write_timer = WriteTimer::new(timeouts.write);
        let (linger_bytes, line) = (MAX_LINGER_BYTES, Vec::new());
        TimedIo {
            stream,
            prefix,
            timeouts,
            head_timer,
            write_timer,
            linger_timer,
            linger_bytes,
            line,
            slot_guard,
        }
    }

    /// Inspects the request line, if these bytes belong to one, for a fragment, which the parser does not
    /// report.
    #[inline]
    fn inspect(&mut self, bytes: &[u8]) {
        let Some((_, state)) = &self.timeouts.head else { return };
        if bytes.is_empty() || !state.expects_request_line() {
            return;
        }
        // The common case is a whole request line without a fragment.
        let found = memchr2(b'\n', b'#', bytes);
        if self.line.is_empty() && found.is_some_and(|end| end > 1 && bytes[end] == b'\n') {
            return state.end_line(false);
        }
        self.inspect_slowly(bytes);
    }

    #[cold]
    fn inspect_slowly(&mut self, bytes: &[u8]) {
        let Some((_, state)) = &self.timeouts.head else { return };
        // Empty lines may precede a request.
        let skipped = match self.line.is_empty() {
            true => bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count(),
            false => 0,
        };
        let bytes = &bytes[skipped..];
        match memchr(b'\n', bytes) {
            Some(end) if self.line.is_empty() => state.end_line(has_fragment(&bytes[..end])),
            Some(end) => {
                self.line.extend_from_slice(&bytes[..end]);
                state.end_line(has_fragment(&self.line));
                self.line = Vec::new();
            }
            // The parser does not accept a longer line.
            None if self.line.len() + bytes.len() > MAX_REQUEST_LINE_BYTES => state.end_line(false),
            None => self.line.extend_from_slice(bytes),
        }
    }

    /// Called when the peer sends nothing. Ready when the request head has timed out.
    fn poll_head_timeout(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some((timeouts, state)) = &self.timeouts.head else { return Poll::Pending };
        // The timer keeps running across requests, because resetting it each time costs more than an occasional
        // early wake-up.
        if self.head_timer.as_ref().is_some_and(|head_timer| !head_timer.is_elapsed()) {
            return Poll::Pending;
        }
        let now = Instant::now();
        // Also while responding, because this may not be polled again when the response ends. While a write is
        // pending, the write timeout applies instead.
        let since = state.waiting_since(now).filter(|_| !self.write_timer.is_running());
        let end = since.unwrap_or(now) + *timeouts;
        if end <= now {
            // A client that has sent nothing is idle.
            if !self.line.is_empty() || !state.expects_request_line() {
                self.slot_guard.slot().set_slow_head();
            }
            return Poll::Ready(());
        }
        let head_timer = self.head_timer.get_or_insert_with(|| Box::pin(sleep_until(end)));
        head_timer.as_mut().reset(end);
        // Without the task's budget, because the timer is polled only once.
        pin!(unconstrained(head_timer.as_mut())).poll(cx)
    }

    /// Returns the result of a write. The time to wait for the next request starts after it.
    fn on_write(
        &mut self,
        wrote: Poll<io::Result<usize>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if let (Poll::Ready(_), Some((_, state))) = (&wrote, &self.timeouts.head) {
            state.on_written();
        }
        self.check_stall(wrote, cx)
    }

    /// Returns the result of a write or flush, or fails after the write timeout without progress.
    fn check_stall<T>(
        &mut self,
        wrote: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if let (true, true, Some((_, state))) =
            (wrote.is_ready(), self.write_timer.is_running(), &self.timeouts.head)
        {
            state.on_written();
        }
        let was_pending = wrote.is_pending();
        let checked = self.write_timer.check(wrote, cx);
        if was_pending && checked.is_ready() {
            self.slot_guard.slot().set_stalled();
        }
        checked
    }
}

/// Returns true if a line is a request line whose target has a fragment. A client that pipelines may have sent
/// something else here.
fn has_fragment(line: &[u8]) -> bool {
    if memchr(b'#', line).is_none() {
        return false;
    }
    let mut parts = line.split(|byte| *byte == b' ');
    let (method, target, version) = (parts.next(), parts.next(), parts.next());
    method.is_some_and(|it| !it.is_empty() && it.iter().all(u8::is_ascii_alphabetic))
        && target.is_some_and(|it| it.contains(&b'#'))
        && version.is_some_and(|it| it.starts_with(b"HTTP/1."))
        && parts.next().is_none()
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = self.as_mut().poll_more(cx, buffer);
        self.inspect(&buffer.filled()[before..]);
        read
    }
}

impl<S: AsyncRead + Unpin> TimedIo<S> {
    fn poll_more(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let size = self.prefix.len().min(buffer.remaining());
        buffer.put_slice(&self.prefix[..size]);
        self.prefix.advance(size);
        // A stream may report its end if it is polled with a full buffer.
        if size > 0 && buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        // Read together with the rest: otherwise hyper would allocate two buffers and keep the larger one.
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if size > 0 {
            return Poll::Ready(Ok(()));
        }
        if read.is_pending() {
            ready!(self.poll_head_timeout(cx));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TimedIo<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.on_write(wrote, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let size = bytes.iter().map(|piece| piece.len()).sum();
        let mut whole = [0; MAX_COALESCED_BYTES];
        let wrote = match whole.get_mut(..size) {
            // One buffer takes the system less time than two.
            Some(whole) => {
                let mut rest = &mut *whole;
                bytes.iter().for_each(|piece| rest.put_slice(piece));
                Pin::new(&mut self.stream).poll_write(cx, whole)
            }
            None => Pin::new(&mut self.stream).poll_write_vectored(cx, bytes),
        };
        self.on_write(wrote, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let wrote = Pin::new(&mut self.stream).poll_flush(cx);
        self.check_stall(wrote, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.linger_timer.is_none() {
            let wrote = Pin::new(&mut self.stream).poll_shutdown(cx);
            ready!(self.check_stall(wrote, cx))?;
            self.linger_timer = Some(Box::pin(sleep(LINGER_TIMEOUT.min(self.timeouts.write))));
        }
        self.poll_linger(cx)
    }
}

impl<S: AsyncRead + Unpin> TimedIo<S> {
    /// Reads and discards input for a moment. Closing a connection while the peer still sends resets it, and
    /// the peer may lose the response.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut void = [0; 8 << 10];
        while let Some(linger_timer) = &mut self.linger_timer
            && linger_timer.as_mut().poll(cx).is_pending()
        {
            let mut void = ReadBuf::new(&mut void);
            let read = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut void));
            self.linger_bytes = self.linger_bytes.saturating_sub(void.filled().len());
            if read.is_err() || void.filled().is_empty() || self.linger_bytes == 0 {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }
}
