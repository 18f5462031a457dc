//! The child process behind a connection, and its graceful shutdown.

use std::{process::ExitStatus, time::Duration};

use tokio::{process::Child, time::timeout};

use crate::client::stream::child::stderr::StderrTail;
use crate::client::stream::connector::PeerGuard;

/// Time that a process gets to exit after each step of the shutdown.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// Time that a process gets to exit after it closed its stdout.
const EXIT_REASON_TIMEOUT: Duration = Duration::from_millis(500);

/// A child process, killed on drop.
pub(crate) struct ChildProcess {
    child: Child,
    tail: Option<StderrTail>,
}

impl ChildProcess {
    pub(super) fn new(child: Child, tail: Option<StderrTail>) -> Self {
        ChildProcess { child, tail }
    }

    async fn wait_for_exit(&mut self, time: Duration) -> Option<ExitStatus> {
        timeout(time, self.child.wait()).await.ok()?.ok()
    }

    /// Sends a signal to the child's process group, unless the child has exited: then its id may
    /// belong to another process.
    #[cfg(unix)]
    fn signal(&mut self, signal: rustix::process::Signal) {
        let group = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(group) = group.and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }

    #[cfg(unix)]
    fn terminate(&mut self) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// Other systems have no SIGTERM.
    #[cfg(not(unix))]
    fn terminate(&mut self) {
        self.kill();
    }

    fn kill(&mut self) {
        #[cfg(unix)]
        self.signal(rustix::process::Signal::KILL);
        let _ = self.child.start_kill();
    }
}

impl PeerGuard for ChildProcess {
    async fn exit_reason(&mut self) -> Option<String> {
        let status = self.wait_for_exit(EXIT_REASON_TIMEOUT).await;
        let tail = match &mut self.tail {
            Some(tail) => tail.text().await,
            None => String::new(),
        };
        match (status, tail.trim()) {
            (None, "") => None,
            (None, tail) => Some(format!("its stderr ends with: {tail}")),
            (Some(status), "") => Some(format!("it ended with {status}")),
            (Some(status), tail) => {
                Some(format!("it ended with {status}, and its stderr with: {tail}"))
            }
        }
    }

    async fn end(&mut self) {
        if self.wait_for_exit(EXIT_TIMEOUT).await.is_some() {
            return;
        }
        self.terminate();
        if self.wait_for_exit(EXIT_TIMEOUT).await.is_some() {
            return;
        }
        self.kill();
        self.wait_for_exit(EXIT_TIMEOUT).await;
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // Tokio kills only the child itself; this kills its process group.
        if matches!(self.child.try_wait(), Ok(None)) {
            self.kill();
        }
    }
}
