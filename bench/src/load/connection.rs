//! Minimal HTTP/1.1 client connection with low overhead.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;

use memchr::{memchr, memmem};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Persistent connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    /// Input; the unread part starts at `used`.
    buffer: Vec<u8>,
    used: usize,
    /// Decoded body of a chunked reply.
    chunks: Vec<u8>,
}

/// Complete reply.
#[derive(Debug)]
pub struct Reply<'a> {
    /// The status code.
    pub status: u16,
    /// Id of the session that the request opened.
    pub session: Option<String>,
    /// Body, without chunk framing.
    pub body: &'a [u8],
}

struct Head {
    status: u16,
    session: Option<String>,
    length: usize,
    chunked: bool,
    is_stream: bool,
}

impl Connection {
    /// Connects with `TCP_NODELAY`.
    pub async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let buffer = Vec::with_capacity(16 * 1024);
        Ok(Connection { stream, buffer, used: 0, chunks: Vec::new() })
    }

    /// Sends a request and reads the complete reply.
    pub async fn exchange(&mut self, request: &[u8]) -> io::Result<Reply<'_>> {
        let head = self.begin(request).await?;
        let body = if head.chunked {
            self.read_chunks().await?;
            &self.chunks[..]
        } else {
            let body = self.take(head.length).await?;
            &self.buffer[body]
        };
        Ok(Reply { status: head.status, session: head.session, body })
    }

    /// Sends a request whose reply is an endless event stream, and reads its head. Any other reply is an error
    /// with its status.
    pub async fn open_stream(&mut self, request: &[u8]) -> io::Result<()> {
        let head = self.begin(request).await?;
        if head.status == 200 && head.is_stream {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "expected an event stream, got a reply with status {}",
            head.status
        )))
    }

    async fn begin(&mut self, request: &[u8]) -> io::Result<Head> {
        self.buffer.drain(..self.used);
        self.used = 0;
        self.stream.write_all(request).await?;
        let end = self.find(b"\r\n\r\n").await?;
        let head = read_head(&self.buffer[self.used..end]).ok_or_else(unreadable)?;
        self.used = end + 4;
        Ok(head)
    }

    async fn read_chunks(&mut self) -> io::Result<()> {
        self.chunks.clear();
        loop {
            let end = self.find(b"\r\n").await?;
            let size = std::str::from_utf8(&self.buffer[self.used..end]).ok();
            let size = size.and_then(|size| usize::from_str_radix(size.trim(), 16).ok());
            let size = size.ok_or_else(unreadable)?;
            self.used = end + 2;
            let chunk = self.take(size + 2).await?;
            self.chunks.extend_from_slice(&self.buffer[chunk.start..chunk.end - 2]);
            if size == 0 {
                return Ok(());
            }
        }
    }

    async fn find(&mut self, needle: &[u8]) -> io::Result<usize> {
        loop {
            if let Some(at) = memmem::find(&self.buffer[self.used..], needle) {
                return Ok(self.used + at);
            }
            self.read().await?;
        }
    }

    async fn take(&mut self, length: usize) -> io::Result<Range<usize>> {
        self.buffer.reserve((self.used + length).saturating_sub(self.buffer.len()));
        while self.buffer.len() - self.used < length {
            self.read().await?;
        }
        let taken = self.used..self.used + length;
        self.used = taken.end;
        Ok(taken)
    }

    async fn read(&mut self) -> io::Result<()> {
        self.buffer.reserve(8 * 1024);
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the server closed the connection",
            )),
            _ => Ok(()),
        }
    }
}

fn unreadable() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the reply is not HTTP/1.1")
}

fn read_head(head: &[u8]) -> Option<Head> {
    let status = std::str::from_utf8(head.get(9..12)?).ok()?.parse().ok()?;
    let mut read = Head { status, session: None, length: 0, chunked: false, is_stream: false };
    for line in head.split(|byte| *byte == b'\n').skip(1) {
        let (name, value) = line.split_at(memchr(b':', line)?);
        let value = value[1..].trim_ascii();
        if name.eq_ignore_ascii_case(b"content-length") {
            read.length = std::str::from_utf8(value).ok()?.parse().ok()?;
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            read.chunked = true;
        } else if name.eq_ignore_ascii_case(b"content-type") {
            read.is_stream = value.starts_with(b"text/event-stream");
        } else if name.eq_ignore_ascii_case(b"mcp-session-id") {
            read.session = Some(String::from_utf8(value.to_vec()).ok()?);
        }
    }
    Some(read)
}
