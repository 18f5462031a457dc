//! Writing half of a connection.

use std::{
    io, mem,
    sync::{Arc, MutexGuard},
};
use wharf_model::Lock;

use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::Notify,
};

use crate::server::jsonl::call::ConnectionState;

/// Writes the output of calls that run as tasks.
pub(crate) struct LineWriter<W> {
    shared: Arc<ConnectionState>,
    sink: Arc<SharedWriter<W>>,
}

impl<W: AsyncWrite + Unpin> LineWriter<W> {
    pub(crate) fn new(shared: Arc<ConnectionState>, sink: Arc<SharedWriter<W>>) -> Self {
        LineWriter { shared, sink }
    }

    /// Waits for output. False if there will not be any.
    pub(crate) async fn is_needed(&self) -> bool {
        self.shared.output.ready().await
    }

    pub(crate) async fn run(self) {
        let output = &self.shared.output;
        while output.ready().await {
            let mut writer = self.sink.take().await;
            write_queued(&mut writer, &self.shared, &[]).await;
            self.sink.put_back(writer);
        }
        let _ = self.sink.take().await.shutdown().await;
    }
}

/// Fails the queue, because senders that wait for room would otherwise wait forever.
impl<W> Drop for LineWriter<W> {
    fn drop(&mut self) {
        self.shared.output.fail();
    }
}

/// Writes the queued output of the connection, then `last`.
pub(crate) async fn write_queued(
    writer: &mut (impl AsyncWrite + Unpin),
    shared: &ConnectionState,
    last: &[u8],
) {
    let ConnectionState { output, observed, .. } = shared;
    let waiting = output.take();
    observed.peer.sent(waiting.len() + last.len());
    let written = async {
        if !waiting.is_empty() {
            writer.write_all(&waiting).await?;
            output.written();
        }
        if !last.is_empty() {
            writer.write_all(last).await?;
        }
        writer.flush().await
    };
    let written: io::Result<()> = written.await;
    if let Err(error) = written {
        if error.kind() == io::ErrorKind::TimedOut {
            observed.fail("slow_client");
        }
        output.fail();
    }
}

/// The writer of a connection, shared by taking it and putting it back.
#[derive(Debug)]
pub(crate) struct SharedWriter<W> {
    slot: Lock<WriterSlot<W>>,
    returned: Notify,
}

#[derive(Debug)]
struct WriterSlot<W> {
    writer: Option<W>,
    /// True if a task is waiting for it.
    is_awaited: bool,
}

impl<W> SharedWriter<W> {
    pub(crate) fn new(writer: W) -> Self {
        let slot = Lock::new(WriterSlot { writer: Some(writer), is_awaited: false });
        SharedWriter { slot, returned: Notify::new() }
    }

    /// Takes the writer, if it is free.
    pub(crate) fn try_take(&self) -> Option<W> {
        self.slot().writer.take()
    }

    /// Takes the writer as soon as it is free. Only one task may wait at a time.
    pub(crate) async fn take(&self) -> W {
        loop {
            {
                let mut slot = self.slot();
                if let Some(writer) = slot.writer.take() {
                    return writer;
                }
                slot.is_awaited = true;
            }
            self.returned.notified().await;
        }
    }

    pub(crate) fn put_back(&self, writer: W) {
        let mut slot = self.slot();
        slot.writer = Some(writer);
        if mem::take(&mut slot.is_awaited) {
            drop(slot);
            self.returned.notify_one();
        }
    }

    fn slot(&self) -> MutexGuard<'_, WriterSlot<W>> {
        self.slot.lock()
    }
}
