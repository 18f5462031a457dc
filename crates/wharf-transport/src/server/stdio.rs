//! JSON lines over the process's stdin and stdout.
//!
//! Only messages may appear on stdout. On Unix this is enforced: [`serve`] keeps private copies of
//! both streams, redirects the process's stdout to its stderr and its stdin to `/dev/null`. Output
//! of `println!` in a handler, a library or a child process therefore appears on stderr, and no
//! other code reads the client's messages. The redirection remains after [`serve`] returns. On
//! other platforms the streams are used as they are, and a handler must not print to stdout.

use std::{
    fs::File,
    future,
    io::{self, Read, Write},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    thread,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    runtime::Handle,
    sync::oneshot,
    task::coop::unconstrained,
};
use wharf_model::{ObservedTransport, RequestExtensions, Trusted};

use crate::{
    ServerContext, Shutdown,
    server::{jsonl, jsonl::writer::LineWriter, parent_exit, signals},
};

/// Serves the client on stdin and stdout until it closes stdin or stops reading stdout, the parent
/// process exits, the process receives SIGTERM or SIGINT (a second signal ends it at once), or
/// `shutdown` stops.
///
/// Must run inside a tokio runtime with everything enabled. A dedicated thread reads stdin and
/// polls each call in place. It may still block in a read after this returns, until the process
/// exits. A second thread is started when the first spawned call has output.
///
/// # Errors
/// Returned if the streams cannot be taken over, or if the reader thread cannot be started.
pub async fn serve(context: Arc<ServerContext>, shutdown: Shutdown) -> io::Result<()> {
    // Never aborted: a second signal must be able to end the process at any time.
    tokio::spawn(signals::watch(shutdown.clone()));
    let parent_gone = parent_exit::parent_exited();
    let orphaned = {
        let shutdown = shutdown.clone();
        async move {
            parent_gone.await;
            shutdown.stop();
            future::pending().await
        }
    };
    let (stdin, stdout) = take_over()?;
    // Only the parent process can write to stdin.
    let mut scope = RequestExtensions::new();
    scope.insert(Trusted);
    scope.insert(ObservedTransport::Stdio);
    let (line, incoming, outgoing) = jsonl::open(context, scope, BlockingFile::new(stdout));
    tracing::info!(transport = ObservedTransport::Stdio.name(), "listening on stdin");
    let runtime = Handle::current();
    // Calls that are polled in place share one poll of the reader, so its cooperative budget is
    // lifted.
    let incoming = unconstrained(incoming.run(BlockingFile::new(stdin)));
    let reading = on_thread("wharf-stdin", runtime.clone(), incoming)?;
    let writing = tokio::spawn(write_on_thread(outgoing, runtime));
    let writing = async { drop(writing.await) };
    tokio::select! {
        () = line.supervise(reading, writing, shutdown) => {}
        () = orphaned => {}
    }
    Ok(())
}

/// Writes on a thread that starts with the first output.
async fn write_on_thread(outgoing: LineWriter<BlockingFile>, runtime: Handle) {
    if outgoing.is_needed().await
        && let Ok(writing) = on_thread("wharf-stdout", runtime, outgoing.run())
    {
        writing.await;
    }
}

/// Runs `work`, which may block, on a thread in the runtime's context; completes at its end.
fn on_thread(
    name: &str,
    runtime: Handle,
    work: impl Future<Output = ()> + Send + 'static,
) -> io::Result<impl Future<Output = ()>> {
    let (ended, end) = oneshot::channel::<()>();
    thread::Builder::new().name(name.into()).spawn(move || {
        runtime.block_on(work);
        drop(ended);
    })?;
    Ok(async { drop(end.await) })
}

#[cfg(unix)]
fn take_over() -> io::Result<(File, File)> {
    use std::os::fd::AsFd;
    let stdin = io::stdin().as_fd().try_clone_to_owned()?;
    let stdout = io::stdout().as_fd().try_clone_to_owned()?;
    io::stdout().flush()?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok((stdin.into(), stdout.into()))
}

#[cfg(windows)]
fn take_over() -> io::Result<(File, File)> {
    use std::os::windows::io::AsHandle;
    let stdin = io::stdin().as_handle().try_clone_to_owned()?;
    let stdout = io::stdout().as_handle().try_clone_to_owned()?;
    Ok((stdin.into(), stdout.into()))
}

/// A file whose reads and writes block the polling thread, which must be a dedicated one.
struct BlockingFile {
    file: File,
    /// Buffer for reads, because the reader's buffer would have to be zeroed for each of them. It
    /// grows while reads fill it.
    scratch: Vec<u8>,
    /// Number of bytes of the last read.
    filled: usize,
}

/// Minimum and maximum size of a read. A pipe holds no more.
const MIN_READ_BYTES: usize = 4 << 10;
const MAX_READ_BYTES: usize = 64 << 10;

#[derive(Clone, Copy)]
enum IoDirection {
    Read,
    Write,
}

impl BlockingFile {
    fn new(file: File) -> Self {
        BlockingFile { file, scratch: Vec::new(), filled: 0 }
    }

    /// Retries `act` after an interruption, and waits if the stream is in non-blocking mode.
    fn retry<T>(
        &mut self,
        direction: IoDirection,
        mut act: impl FnMut(&mut Self) -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            match act(self) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(direction)?,
                result => return result,
            }
        }
    }

    #[cfg(unix)]
    fn wait(&self, direction: IoDirection) -> io::Result<()> {
        use rustix::event::{PollFd, PollFlags, poll};
        let interest = match direction {
            IoDirection::Read => PollFlags::IN,
            IoDirection::Write => PollFlags::OUT,
        };
        match poll(&mut [PollFd::new(&self.file, interest)], None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    #[cfg(not(unix))]
    fn wait(&self, _: IoDirection) -> io::Result<()> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

impl AsyncRead for BlockingFile {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.filled == self.scratch.len() {
            let length = (2 * self.filled).clamp(MIN_READ_BYTES, MAX_READ_BYTES);
            self.scratch.resize(length, 0);
        }
        let room = buffer.remaining().min(self.scratch.len());
        self.filled = self.retry(IoDirection::Read, |it| it.file.read(&mut it.scratch[..room]))?;
        buffer.put_slice(&self.scratch[..self.filled]);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for BlockingFile {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(self.retry(IoDirection::Write, |it| it.file.write(bytes)))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
