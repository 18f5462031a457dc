//! Frames messages as JSON lines: reads and writes one message per line.

use std::io;

use bytes::{BufMut, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    task::coop::consume_budget,
};
use wharf_model::Error;
use wharf_wire::{Line, Lines};

use crate::client::{
    ClientTransportOptions,
    stream::connector::{MessageSink, MessageSource},
};

/// Bytes per read.
const CHUNK_BYTES: usize = 64 << 10;

/// Reads messages from lines.
pub(crate) struct LineSource<R> {
    reader: R,
    lines: Lines,
    ended: bool,
}

impl<R> LineSource<R> {
    pub(crate) fn new(reader: R, options: &ClientTransportOptions) -> Self {
        LineSource { reader, lines: Lines::new(options.limits.message), ended: false }
    }
}

impl<R: AsyncRead + Send + Unpin + 'static> MessageSource for LineSource<R> {
    async fn next(&mut self) -> Result<Option<Line>, Error> {
        // A server that never pauses must not starve other futures of the task.
        consume_budget().await;
        loop {
            if let Some(line) = self.lines.next() {
                self.release_large_buffer(&line);
                return Ok(Some(line));
            }
            if self.ended {
                return Ok(self.lines.finish());
            }
            let buffer = self.lines.buffer();
            buffer.reserve(CHUNK_BYTES);
            let read = self.reader.read_buf(&mut buffer.limit(CHUNK_BYTES)).await;
            // A read error counts as the end of the stream.
            self.ended = read.unwrap_or(0) == 0;
        }
    }
}

impl<R> LineSource<R> {
    /// Frees the large buffer after a long line.
    fn release_large_buffer(&mut self, line: &Line) {
        if matches!(line, Line::Message(message) if message.len() > CHUNK_BYTES) {
            let buffer = self.lines.buffer();
            *buffer = BytesMut::from(&buffer[..]);
        }
    }
}

/// Writes messages as lines.
pub(crate) struct LineSink<W> {
    writer: W,
    lines: Vec<u8>,
}

impl<W> LineSink<W> {
    pub(crate) fn new(writer: W) -> Self {
        LineSink { writer, lines: Vec::new() }
    }
}

impl<W: AsyncWrite + Send + Unpin + 'static> MessageSink for LineSink<W> {
    async fn send(&mut self, messages: Vec<Vec<u8>>) -> io::Result<()> {
        self.lines.clear();
        for message in messages {
            // JSON of the caller may contain line breaks between tokens, which are replaced by
            // spaces. DEL is kept, because it may be part of a string.
            let flat = message.iter().map(|byte| if *byte < b' ' { b' ' } else { *byte });
            self.lines.extend(flat);
            self.lines.push(b'\n');
        }
        self.writer.write_all(&self.lines).await?;
        self.lines.shrink_to(CHUNK_BYTES);
        self.writer.flush().await
    }

    async fn close(&mut self) {
        let _ = self.writer.shutdown().await;
    }
}
