//! Effect of a signal on a process that waits for it in several places. A single test, because
//! signals concern the whole process.

use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use tokio::time::{sleep, timeout};
use wharf_transport::{Shutdown, server::signals};

/// A stdio server watches signals itself, beside the application: one signal must not count as two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_signal_stops_and_does_not_end_the_process() {
    let shutdown = Shutdown::new();
    let watchers: Vec<_> =
        (0..50).map(|_| tokio::spawn(signals::watch(shutdown.clone()))).collect();
    assert!(!shutdown.is_stopped());
    kill_process(getpid(), Signal::TERM).unwrap();
    for watcher in watchers {
        timeout(Duration::from_secs(60), watcher).await.unwrap().unwrap();
    }
    assert!(shutdown.is_stopped());
    // A watcher that took the signal for the second one would end the process now.
    sleep(Duration::from_millis(200)).await;
}
