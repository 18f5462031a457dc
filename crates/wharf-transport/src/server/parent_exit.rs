//! Detects the exit of the parent process.
//!
//! Usually stdin closes when the parent exits. But another child of the same parent may have
//! inherited the other end of the pipe and keep it open, and the orphan would wait forever.

#[cfg(unix)]
pub(crate) use unix::parent_exited;

/// Never completes: this platform cannot detect the exit of the parent process.
#[cfg(not(unix))]
pub(crate) fn parent_exited() -> impl Future<Output = ()> + Send {
    std::future::pending()
}

#[cfg(unix)]
mod unix {
    use std::{
        future::{self, Future},
        time::Duration,
    };

    use rustix::process::{Pid, getppid};
    use tokio::time::sleep;

    /// Poll interval where the system cannot notify about the exit.
    const POLL_INTERVAL: Duration = Duration::from_secs(2);

    /// Completes when the current parent process has exited.
    pub(crate) fn parent_exited() -> impl Future<Output = ()> + Send {
        // Read before the first message: once answered, a client may kill the parent. Process 1
        // adopts orphans and does not exit, so it is not watched.
        let parent = getppid().filter(|parent| *parent != Pid::INIT);
        async move {
            match parent {
                Some(parent) => wait(parent).await,
                None => future::pending().await,
            }
        }
    }

    async fn wait(parent: Pid) {
        #[cfg(target_os = "linux")]
        wait_for_exit(parent).await;
        // The parent is still alive here only if the kernel could not wait for it.
        while getppid() == Some(parent) {
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits for the exit of `parent`, if the kernel supports it.
    #[cfg(target_os = "linux")]
    async fn wait_for_exit(parent: Pid) {
        use rustix::process::{PidfdFlags, pidfd_open};
        use tokio::io::{Interest, unix::AsyncFd};
        let Ok(process) = pidfd_open(parent, PidfdFlags::empty()) else { return };
        #[allow(
            deprecated,
            reason = "the replacement is unsafe, because other code may close the file"
        )]
        let process = AsyncFd::with_interest(process, Interest::READABLE);
        if let Ok(process) = process {
            drop(process.readable().await);
        }
    }
}
