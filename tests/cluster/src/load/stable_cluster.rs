//! Operations that must work without exception on a stable cluster: after the last kill or outage.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep, timeout};
use wharf::Era;

use super::{
    Load, SETTLE_TIMEOUT,
    changes::{CHANGEABLE, changeable},
};
use crate::recording_client::LegacySession;

/// Number of repetitions: every process has its turn several times.
const TIMES: u64 = 18;

impl Load {
    /// Runs all operations on stable processes. Subscribers may stop then.
    pub async fn run_on_stable_cluster(&self) {
        if timeout(SETTLE_TIMEOUT * 2, self.stable_operations()).await.is_err() {
            self.wrong("stable cluster", "it did not come to an end");
        }
        self.over.send_replace(true);
    }

    async fn stable_operations(&self) {
        let who = "oscar";
        let (Ok(session), Some(client)) = (
            LegacySession::open(self.address, who, SETTLE_TIMEOUT).await,
            self.connect(who, Era::Modern).await,
        ) else {
            return self.wrong(who, "it could not connect on the stable cluster");
        };
        self.until("listeners did not come back", || self.watches.iter().all(|it| it.is_open()))
            .await;
        for number in 1..=TIMES {
            let what = changeable(usize::try_from(number).unwrap_or(0) % CHANGEABLE);
            if !self.change(&session, number * 10, &what).await {
                self.wrong(who, "a change failed on the stable cluster");
            }
            if !self.interview(&session, who, number * 10 + 1, 3).await {
                self.wrong(who, "an interview was interrupted on the stable cluster");
            }
            if !self.modern_interview(&client, who, number * 10 + 2, 3).await {
                self.wrong(who, "a modern interview was interrupted on the stable cluster");
            }
            let arguments = json!({"to": 5, "pause": 1});
            let heard = session.call(number * 10 + 3, "count", &arguments, SETTLE_TIMEOUT).await;
            if !heard.is_whole() || heard.resumed > 0 {
                self.wrong(who, &format!("a stream broke on the stable cluster: {heard:?}"));
            }
        }
        self.cancelled_call(&session, who, 1).await;
        let last: Vec<_> = self.changes().iter().rev().take(TIMES as usize).cloned().collect();
        let all_know =
            || self.watches.iter().all(|it| last.iter().all(|change| it.has_received(change)));
        self.until("not all listeners were told on the stable cluster", all_know).await;
    }

    async fn until(&self, problem: &str, is_so: impl Fn() -> bool) {
        let until = Instant::now() + SETTLE_TIMEOUT / 2;
        while !is_so() {
            if Instant::now() > until {
                return self.wrong("stable cluster", problem);
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
}
