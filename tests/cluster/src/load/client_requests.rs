//! Calls with client requests whose responses reach other processes than the waiting one, and calls
//! that are cancelled in the same way.

use std::{sync::atomic::Ordering, time::Duration};

use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use wharf::{Client, Era};

use super::{Load, SETTLE_TIMEOUT, is_final};
use crate::{
    random::SeededRandom, recording_client::LegacySession, recording_tools::minutes,
    task_history::TaskEvent,
};

/// Concurrent calls of one caller: one whose node is lost ends late.
const AT_ONCE: usize = 24;
/// Time until a call is cancelled.
const CANCEL_AFTER: Duration = Duration::from_millis(700);

impl Load {
    /// Runs calls with client requests one after the other, in the handshake era.
    pub(super) async fn interviews(self, who: &'static str) {
        let mut random = SeededRandom::of(3, who);
        let mut under_way = JoinSet::new();
        let session = match LegacySession::open(self.address, who, SETTLE_TIMEOUT).await {
            Ok(session) => session,
            Err(error) => return self.wrong(who, &format!("no session: {error}")),
        };
        for number in 1.. {
            if Instant::now() >= self.end {
                break;
            }
            let questions = 1 + u32::try_from(random.below(6)).unwrap_or(0);
            let (load, session) = (self.clone(), session.clone());
            under_way.spawn(async move { load.interview(&session, who, number, questions).await });
            if under_way.len() >= AT_ONCE {
                under_way.join_next().await;
            }
            sleep(random.millis(100..250)).await;
        }
        while under_way.join_next().await.is_some() {}
    }

    /// Runs one call with its client requests; returns whether it had a result.
    pub(super) async fn interview(
        &self,
        session: &LegacySession,
        who: &str,
        number: u64,
        questions: u32,
    ) -> bool {
        let key = format!("{who}-q{number}");
        let arguments = json!({"key": key, "questions": questions});
        let heard = session.call(number, "interview", &arguments, self.patience()).await;
        if let Some(problem) = heard.problem_of_questions(who, &key, questions) {
            self.wrong(&key, &problem);
        }
        self.count_interview(heard.is_whole())
    }

    fn count_interview(&self, is_whole: bool) -> bool {
        let ended = [&self.counts.interrupted, &self.counts.interviews][usize::from(is_whole)];
        ended.fetch_add(1, Ordering::Relaxed);
        is_whole
    }

    /// Runs calls with client requests one after the other, in the modern era: the responses travel
    /// in the state.
    pub(super) async fn modern_interviews(self, who: &'static str) {
        let Some(client) = self.connect(who, Era::Modern).await else { return };
        let mut random = SeededRandom::of(3, who);
        for number in 1.. {
            if Instant::now() >= self.end {
                break;
            }
            let questions = 1 + u32::try_from(random.below(6)).unwrap_or(0);
            self.modern_interview(&client, who, number, questions).await;
            sleep(random.millis(20..100)).await;
        }
    }

    /// Runs one such call; returns whether it had a result.
    pub(super) async fn modern_interview(
        &self,
        client: &Client,
        who: &str,
        number: u64,
        questions: u32,
    ) -> bool {
        let key = format!("{who}-q{number}");
        let arguments = json!({"key": key, "questions": questions});
        match client.call_as::<String>("interview", arguments).await {
            Ok(text) if text == minutes(who, &key, questions) => self.count_interview(true),
            Ok(text) => {
                self.wrong(&key, &format!("its minutes are {text:?}"));
                false
            }
            Err(error) => {
                if is_final(&error) {
                    self.wrong(&key, &format!("it ended with {error:?}"));
                }
                self.count_interview(false)
            }
        }
    }

    /// Runs calls that are cancelled, at any process.
    pub(super) async fn cancelled_calls(self, who: &'static str) {
        let session = match LegacySession::open(self.address, who, SETTLE_TIMEOUT).await {
            Ok(session) => session,
            Err(error) => return self.wrong(who, &format!("no session: {error}")),
        };
        for number in 1.. {
            if Instant::now() >= self.end {
                break;
            }
            self.cancelled_call(&session, who, number).await;
        }
    }

    /// Runs one such call, whose client disconnects and then cancels it.
    pub(super) async fn cancelled_call(&self, session: &LegacySession, who: &str, number: u64) {
        let key = format!("{who}-c{number}");
        let arguments = json!({ "key": key });
        let call = session.call(number, "linger", &arguments, self.patience());
        if timeout(CANCEL_AFTER, call).await.is_ok() {
            // The process was killed meanwhile, or is temporarily unavailable.
            return sleep(Duration::from_millis(50)).await;
        }
        let cancel = json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number},
        });
        match session.notify(&cancel, self.patience()).await {
            Ok(()) => {
                self.counts.stopped.fetch_add(1, Ordering::Relaxed);
                self.add(&key, TaskEvent::Cancelled { too_late: false });
            }
            Err(error) => self.wrong(&key, &format!("nobody took its cancellation: {error}")),
        }
    }
}
