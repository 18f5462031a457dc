//! Termination signals.

use crate::Shutdown;

/// Stops `shutdown` at SIGINT, SIGTERM or the platform's equivalent, and completes then or when
/// `shutdown` is stopped otherwise. The next signal ends the process at once, and kills the children of its clients.
///
/// From this call on, signals do not end the process by themselves. Must be called and awaited
/// within a tokio runtime.
pub fn watch(shutdown: Shutdown) -> impl Future<Output = ()> + Send {
    let (signals, stopped) = (ShutdownSignals::new(), shutdown.stopped());
    async move {
        let Some(mut signals) = signals else { return stopped.await };
        tokio::select! {
            // The signal is polled first: if another watcher stopped at the same signal, it must
            // not count as the second one.
            biased;
            signal = signals.next() => {
                // Several watchers may receive it.
                if shutdown.stop_first() {
                    tracing::info!(signal, "received a signal to shut down");
                }
            }
            () = stopped => {}
        }
        // Never aborted: a second signal must be able to end the process at any time.
        tokio::spawn(async move {
            let signal = signals.next().await;
            #[cfg(feature = "client")]
            crate::client::kill_children();
            std::process::exit(128 + signal);
        });
    }
}

#[cfg(unix)]
struct ShutdownSignals {
    interrupts: tokio::signal::unix::Signal,
    terminations: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl ShutdownSignals {
    fn new() -> Option<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let interrupts = signal(SignalKind::interrupt()).ok()?;
        let terminations = signal(SignalKind::terminate()).ok()?;
        Some(ShutdownSignals { interrupts, terminations })
    }

    /// Number of the next signal.
    async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.interrupts.recv() => 2,
            _ = self.terminations.recv() => 15,
        }
    }
}

#[cfg(not(unix))]
struct ShutdownSignals;

#[cfg(not(unix))]
impl ShutdownSignals {
    fn new() -> Option<Self> {
        Some(ShutdownSignals)
    }

    async fn next(&mut self) -> i32 {
        match tokio::signal::ctrl_c().await {
            Ok(()) => 2,
            Err(_) => std::future::pending().await,
        }
    }
}
