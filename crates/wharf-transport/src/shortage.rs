//! A process that has no file descriptors left for new connections.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// How often it is logged while it lasts.
const LOGGED: Duration = Duration::from_secs(60);
/// For how long after the last failure the process counts as short of descriptors.
#[cfg(feature = "http")]
const RECENT: Duration = Duration::from_secs(10);

/// Whether connections could not be accepted, for lack of file descriptors or memory. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shortage(Arc<Mutex<Times>>);

#[derive(Debug, Default)]
struct Times {
    failed: Option<Instant>,
    logged: Option<Instant>,
}

impl Shortage {
    /// Takes note of why no connection was accepted. True if that is a shortage, or anything else that will not pass at
    /// once: the next attempt should wait.
    pub(crate) fn note(&self, error: &io::Error, setting: &str) -> bool {
        // The client left before it was accepted; the next one may be there.
        if matches!(
            error.kind(),
            io::ErrorKind::ConnectionAborted
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::Interrupted
        ) {
            return false;
        }
        let now = Instant::now();
        let mut times = self.lock();
        let is_shortage = is_shortage(error);
        if is_shortage {
            times.failed = Some(now);
        }
        if times.logged.is_none_or(|logged| now.duration_since(logged) >= LOGGED) {
            times.logged = Some(now);
            drop(times);
            match is_shortage {
                true => tracing::error!(
                    %error,
                    "no connection can be accepted: the process has used up its file descriptors or memory; \
                     raise the limit (`ulimit -n`, LimitNOFILE in systemd) or lower {setting}",
                ),
                false => tracing::error!(%error, "no connection can be accepted"),
            }
        }
        true
    }

    /// Whether there was a shortage a moment ago.
    #[cfg(feature = "http")]
    pub(crate) fn is_recent(&self) -> bool {
        self.lock().failed.is_some_and(|failed| failed.elapsed() < RECENT)
    }

    fn lock(&self) -> MutexGuard<'_, Times> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(unix)]
fn is_shortage(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let errno = Errno::from_io_error(error);
    errno.is_some_and(|it| [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM].contains(&it))
}

/// WSAEMFILE and WSAENOBUFS.
#[cfg(not(unix))]
fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(10024 | 10055))
}
