//! Noticing that the parent process is gone.
//!
//! Usually stdin ends with the parent. But another child of the same parent may have inherited the
//! other end of the pipe, and would keep an orphan waiting for ever.

#[cfg(unix)]
pub(crate) use unix::gone;

/// Completes when the parent process is gone; here, never.
#[cfg(not(unix))]
pub(crate) fn gone() -> impl Future<Output = ()> + Send {
    std::future::pending()
}

#[cfg(unix)]
mod unix {
    use std::{
        future::{self, Future},
        thread,
        time::Duration,
    };

    use rustix::process::{Pid, getppid};
    use tokio::sync::oneshot;

    /// How often to look, where the system cannot wake us.
    const INTERVAL: Duration = Duration::from_secs(2);

    /// Completes when whoever is the parent process now is gone.
    pub(crate) fn gone() -> impl Future<Output = ()> + Send {
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
        let (sender, receiver) = oneshot::channel::<()>();
        let watch = move || {
            wait_for_end(parent);
            drop(sender);
        };
        match thread::Builder::new().name("wharf-parent".into()).spawn(watch) {
            Ok(_) => drop(receiver.await),
            Err(_) => future::pending().await,
        }
    }

    fn wait_for_end(parent: Pid) {
        #[cfg(target_os = "linux")]
        wait_for_exit(parent);
        // Reached while the parent lives only if the system could not wait for it.
        while getppid() == Some(parent) {
            thread::sleep(INTERVAL);
        }
    }

    /// Blocks until `parent` has exited, if this kernel can tell.
    #[cfg(target_os = "linux")]
    fn wait_for_exit(parent: Pid) {
        use rustix::{
            event::{PollFd, PollFlags, poll},
            io::Errno,
            process::{PidfdFlags, pidfd_open},
        };
        let Ok(process) = pidfd_open(parent, PidfdFlags::empty()) else { return };
        let mut processes = [PollFd::new(&process, PollFlags::IN)];
        while poll(&mut processes, None) == Err(Errno::INTR) {}
    }
}
