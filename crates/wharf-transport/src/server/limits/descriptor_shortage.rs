//! Detects that the process has no file descriptors left for new connections.

#[cfg(feature = "http")]
use std::time::Duration;
use std::{io, sync::Arc};

use tokio::time::Instant;
use wharf_model::{Lock, LogThrottle};

/// Period after the last failure in which the shortage counts as recent.
#[cfg(feature = "http")]
const RECENT_FAILURE_PERIOD: Duration = Duration::from_secs(10);

/// Records failures to accept connections for lack of file descriptors or memory. Clones share one
/// state.
#[derive(Clone, Debug, Default)]
pub(crate) struct DescriptorShortage(Arc<ShortageState>);

#[derive(Debug)]
struct ShortageState {
    /// Time of the last failure for lack of file descriptors or memory.
    failed: Lock<Option<Instant>>,
    log: LogThrottle,
}

impl Default for ShortageState {
    fn default() -> Self {
        ShortageState { failed: Lock::default(), log: LogThrottle::every_seconds(60) }
    }
}

impl DescriptorShortage {
    /// Records an accept error. True if it is a shortage or another lasting error, so that the next
    /// attempt should wait.
    pub(crate) fn note(&self, error: &io::Error, setting: &str) -> bool {
        // The client disconnected before it was accepted; the next accept may succeed.
        if matches!(
            error.kind(),
            io::ErrorKind::ConnectionAborted
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::Interrupted
        ) {
            return false;
        }
        let is_shortage = is_shortage(error);
        if is_shortage {
            *self.0.failed.lock() = Some(Instant::now());
        }
        if let Some(suppressed) = self.0.log.due() {
            match is_shortage {
                true => tracing::error!(
                    %error,
                    suppressed,
                    "cannot accept connections: the process has used up its file descriptors or memory; \
                     raise the limit (`ulimit -n`, LimitNOFILE in systemd) or lower {setting}",
                ),
                false => tracing::error!(%error, suppressed, "cannot accept connections"),
            }
        }
        true
    }

    /// True if there was a shortage recently.
    #[cfg(feature = "http")]
    pub(crate) fn is_recent(&self) -> bool {
        let failed = *self.0.failed.lock();
        failed.is_some_and(|failed| failed.elapsed() < RECENT_FAILURE_PERIOD)
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
