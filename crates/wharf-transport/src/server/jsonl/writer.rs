//! Writing to the client, in turns.

use std::{
    io, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::Notify,
};

use crate::server::jsonl::{call::ConnectionState, write_queue::WriteQueue};

/// The half of a connection that writes what calls beside the reader have to say.
pub(crate) struct LineWriter<W> {
    shared: Arc<ConnectionState>,
    sink: Arc<SharedWriter<W>>,
}

impl<W: AsyncWrite + Unpin> LineWriter<W> {
    pub(crate) fn new(shared: Arc<ConnectionState>, sink: Arc<SharedWriter<W>>) -> Self {
        LineWriter { shared, sink }
    }

    /// Waits until there is something to write. False if there never will be.
    pub(crate) async fn is_needed(&self) -> bool {
        self.shared.output.ready().await
    }

    pub(crate) async fn run(self) {
        let output = &self.shared.output;
        while output.ready().await {
            let mut writer = self.sink.take().await;
            write_queued(&mut writer, output, &[]).await;
            self.sink.put_back(writer);
        }
        let _ = self.sink.take().await.shutdown().await;
    }
}

/// Without it, whoever waits for the client to read would wait for ever.
impl<W> Drop for LineWriter<W> {
    fn drop(&mut self) {
        self.shared.output.fail();
    }
}

/// Writes what waits in `output`, then `last`.
pub(crate) async fn write_queued(
    writer: &mut (impl AsyncWrite + Unpin),
    output: &WriteQueue,
    last: &[u8],
) {
    let waiting = output.take();
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
    if written.is_err() {
        output.fail();
    }
}

/// The writer of a connection: whoever writes takes it, and puts it back.
#[derive(Debug)]
pub(crate) struct SharedWriter<W> {
    slot: Mutex<WriterSlot<W>>,
    returned: Notify,
}

#[derive(Debug)]
struct WriterSlot<W> {
    writer: Option<W>,
    /// Whether somebody waits for it.
    is_awaited: bool,
}

impl<W> SharedWriter<W> {
    pub(crate) fn new(writer: W) -> Self {
        let slot = Mutex::new(WriterSlot { writer: Some(writer), is_awaited: false });
        SharedWriter { slot, returned: Notify::new() }
    }

    /// Takes the writer, unless somebody else has it.
    pub(crate) fn try_take(&self) -> Option<W> {
        self.slot().writer.take()
    }

    /// Takes the writer as soon as it is there. One may wait at a time.
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
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
