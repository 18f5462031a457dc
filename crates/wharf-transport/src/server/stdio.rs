//! Lines over the process's own stdin and stdout.
//!
//! Nothing but messages may appear on stdout. On Unix this is guarded: [`serve`] keeps private
//! copies of both streams, points the process's stdout at its stderr and its stdin at `/dev/null`.
//! So a `println!` in a handler, in a library or in a child process shows up on stderr, and nobody
//! else reads the client's messages. The streams stay that way after [`serve`] returns. Elsewhere
//! the streams are used as they are, and a handler must not print to stdout.

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
use wharf_model::{RequestExtensions, Trusted};

use crate::{
    ServerContext, Shutdown,
    server::{jsonl, jsonl::writer::LineWriter, parent_exit, signals},
};

/// Serves the client at the other end of stdin and stdout, until it closes stdin or stops reading
/// stdout, the parent process dies, the process is told to end (SIGTERM or SIGINT; a second signal
/// ends it at once), or `shutdown` stops.
///
/// Must run inside a tokio runtime with everything enabled. A thread of its own reads stdin and
/// polls each call where it is; it may still wait in a read after this returns, which only the end
/// of the process ends. Another is started for calls that go on, when the first of them says
/// something.
///
/// # Errors
/// If the streams cannot be taken over, or the thread that reads cannot be started.
pub async fn serve(context: Arc<ServerContext>, shutdown: Shutdown) -> io::Result<()> {
    // Never aborted: as long as the process goes on, another signal must be able to end it.
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
    // Nobody else speaks to stdin than whoever started the process.
    let mut scope = RequestExtensions::new();
    scope.insert(Trusted);
    let (line, incoming, outgoing) = jsonl::open(context, scope, BlockingFile::new(stdout));
    let runtime = Handle::current();
    // Calls polled in place share one poll of the reader, and must not share its budget.
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

/// Writes on a thread that is not started before there is something to write.
async fn write_on_thread(outgoing: LineWriter<BlockingFile>, runtime: Handle) {
    if outgoing.is_needed().await
        && let Ok(writing) = on_thread("wharf-stdout", runtime, outgoing.run())
    {
        writing.await;
    }
}

/// Runs `work`, which may block, on a thread inside the runtime's context; completes at its end.
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

/// A file whose reads and writes block the thread they are polled on, which must be its own.
struct BlockingFile {
    file: File,
    /// Where reads go first, because a reader's buffer would have to be cleared for each of them.
    /// It grows while they fill it.
    scratch: Vec<u8>,
    /// How much of it the last read filled.
    filled: usize,
}

/// How much is read at first, and how much at most. A pipe holds no more.
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

    /// Repeats `act` until it neither was interrupted nor found a stream that does not block.
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
