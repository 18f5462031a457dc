//! Noticing that the parent process is gone.
//!
//! Usually stdin ends with the parent. But another child of the same parent may have inherited the
//! other end of the pipe, and would keep an orphan waiting for ever.

#[cfg(unix)]
pub(crate) use unix::parent_exited;

/// Completes when the parent process is gone; here, never.
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

    /// How often to look, where the system cannot wake us.
    const POLL_INTERVAL: Duration = Duration::from_secs(2);

    /// Completes when whoever is the parent process now is gone.
    pub(crate) fn parent_exited() -> impl Future<Output = ()> + Send {
        // Looked up before the first message is read: once answered, a client may kill the parent.
        // Process 1 adopts orphans: as a parent it tells nothing, and it does not die.
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
        // Reached while the parent lives only if the system could not wait for it.
        while getppid() == Some(parent) {
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits until `parent` has exited, if this kernel can tell.
    #[cfg(target_os = "linux")]
    async fn wait_for_exit(parent: Pid) {
        use rustix::process::{PidfdFlags, pidfd_open};
        use tokio::io::{Interest, unix::AsyncFd};
        let Ok(process) = pidfd_open(parent, PidfdFlags::empty()) else { return };
        #[allow(deprecated, reason = "what replaces it is unsafe, for files that others may close")]
        let process = AsyncFd::with_interest(process, Interest::READABLE);
        if let Ok(process) = process {
            drop(process.readable().await);
        }
    }
}
