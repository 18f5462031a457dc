//! Being told to end.

use crate::Shutdown;

/// Stops `shutdown` when the process is told to end, by SIGINT or SIGTERM or by what the platform
/// has instead. Told again, the process ends at once.
///
/// From this call on, signals do not end the process by themselves. Must be called within a tokio
/// runtime.
pub fn watch(shutdown: Shutdown) -> impl Future<Output = ()> + Send {
    let signals = Signals::new();
    async move {
        let Some(mut signals) = signals else { return };
        signals.next().await;
        shutdown.stop();
        let signal = signals.next().await;
        std::process::exit(128 + signal);
    }
}

#[cfg(unix)]
struct Signals {
    interrupts: tokio::signal::unix::Signal,
    terminations: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> Option<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let interrupts = signal(SignalKind::interrupt()).ok()?;
        let terminations = signal(SignalKind::terminate()).ok()?;
        Some(Signals { interrupts, terminations })
    }

    /// The number of the next one.
    async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.interrupts.recv() => 2,
            _ = self.terminations.recv() => 15,
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> Option<Self> {
        Some(Signals)
    }

    async fn next(&mut self) -> i32 {
        match tokio::signal::ctrl_c().await {
            Ok(()) => 2,
            Err(_) => std::future::pending().await,
        }
    }
}
