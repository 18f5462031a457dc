//! The child process behind a connection, and its graceful shutdown.

use std::{process::ExitStatus, time::Duration};

use tokio::{process::Child, time::timeout};

use crate::client::stream::child::{process_group::ProcessGroup, stderr::StderrTail};
use crate::client::stream::connector::PeerGuard;

/// Time that a process gets to exit after each step of the shutdown.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// Time that a process gets to exit after it closed its stdout.
const EXIT_REASON_TIMEOUT: Duration = Duration::from_millis(500);

/// A child process, killed with its process group on drop.
pub(crate) struct ChildProcess {
    child: Child,
    group: ProcessGroup,
    tail: Option<StderrTail>,
}

impl ChildProcess {
    pub(super) fn new(child: Child, tail: Option<StderrTail>) -> Self {
        let group = ProcessGroup::of(child.id());
        ChildProcess { child, group, tail }
    }

    async fn wait_for_exit(&mut self, time: Duration) -> Option<ExitStatus> {
        timeout(time, self.child.wait()).await.ok()?.ok()
    }

    #[cfg(unix)]
    fn terminate(&mut self) {
        self.group.terminate();
    }

    /// Other systems have no SIGTERM.
    #[cfg(not(unix))]
    fn terminate(&mut self) {
        self.kill();
    }

    fn kill(&mut self) {
        self.group.kill();
        let _ = self.child.start_kill();
    }

    /// Waits for the exit of the child, after each step of the shutdown.
    async fn shut_down(&mut self) {
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
        self.shut_down().await;
        self.group.end_members().await;
    }
}
