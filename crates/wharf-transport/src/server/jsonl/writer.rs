//! Writing to the client, in turns.

use std::{
    io, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::Notify,
};

use crate::server::jsonl::{call::Shared, write_queue::Output};

/// The half of a connection that writes what calls beside the reader have to say.
pub(crate) struct Outgoing<W> {
    shared: Arc<Shared>,
    sink: Arc<Sink<W>>,
}

impl<W: AsyncWrite + Unpin> Outgoing<W> {
    pub(crate) fn new(shared: Arc<Shared>, sink: Arc<Sink<W>>) -> Self {
        Outgoing { shared, sink }
    }

    /// Waits until there is something to write. False if there never will be.
    pub(crate) async fn is_needed(&self) -> bool {
        self.shared.output.ready().await
    }

    pub(crate) async fn run(self) {
        let output = &self.shared.output;
        while output.ready().await {
            let mut writer = self.sink.take().await;
            write(&mut writer, output, &[]).await;
            self.sink.put_back(writer);
        }
        let _ = self.sink.take().await.shutdown().await;
    }
}

/// Without it, whoever waits for the client to read would wait for ever.
impl<W> Drop for Outgoing<W> {
    fn drop(&mut self) {
        self.shared.output.fail();
    }
}

/// Writes what waits in `output`, then `last`.
pub(crate) async fn write(writer: &mut (impl AsyncWrite + Unpin), output: &Output, last: &[u8]) {
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
pub(crate) struct Sink<W> {
    place: Mutex<Place<W>>,
    returned: Notify,
}

#[derive(Debug)]
struct Place<W> {
    writer: Option<W>,
    /// Whether somebody waits for it.
    wanted: bool,
}

impl<W> Sink<W> {
    pub(crate) fn new(writer: W) -> Self {
        let place = Mutex::new(Place { writer: Some(writer), wanted: false });
        Sink { place, returned: Notify::new() }
    }

    /// Takes the writer, unless somebody else has it.
    pub(crate) fn try_take(&self) -> Option<W> {
        self.place().writer.take()
    }

    /// Takes the writer as soon as it is there. One may wait at a time.
    pub(crate) async fn take(&self) -> W {
        loop {
            {
                let mut place = self.place();
                if let Some(writer) = place.writer.take() {
                    return writer;
                }
                place.wanted = true;
            }
            self.returned.notified().await;
        }
    }

    pub(crate) fn put_back(&self, writer: W) {
        let mut place = self.place();
        place.writer = Some(writer);
        if mem::take(&mut place.wanted) {
            drop(place);
            self.returned.notify_one();
        }
    }

    fn place(&self) -> MutexGuard<'_, Place<W>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
