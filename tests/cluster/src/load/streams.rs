//! Callers that read the streams of their calls by hand, and callers that request their own name.

use std::{sync::atomic::Ordering, time::Duration};

use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use wharf::Era;

use super::{Load, SETTLE_TIMEOUT, is_final};
use crate::{random::SeededRandom, recording_client::LegacySession};

/// Concurrent streams of one caller, and calls per session.
const STREAMS: usize = 64;
const CALLS_OF_SESSION: u64 = 10;

impl Load {
    /// Runs several streams at a time. One whose node is lost ends when the loss is detected;
    /// others continue meanwhile.
    pub(super) async fn streams(self, who: &'static str) {
        let mut random = SeededRandom::of(2, who);
        let (mut session, mut under_way) = (None, JoinSet::new());
        for number in 1.. {
            if Instant::now() >= self.end {
                break;
            }
            if number % CALLS_OF_SESSION == 1 {
                session = None;
            }
            let open = match session.take() {
                Some(open) => open,
                None => match LegacySession::open(self.address, who, SETTLE_TIMEOUT).await {
                    Ok(opened) => opened,
                    Err(error) => {
                        return self.wrong(who, &format!("no session could be opened: {error}"));
                    }
                },
            };
            session = Some(open.clone());
            let to = 5 + u32::try_from(random.below(30)).unwrap_or(0);
            under_way.spawn(self.clone().stream(open, who, number, to, random.below(60)));
            if under_way.len() >= STREAMS {
                under_way.join_next().await;
            }
            sleep(random.millis(50..150)).await;
        }
        while under_way.join_next().await.is_some() {}
    }

    /// Runs one stream, checked event by event.
    async fn stream(
        self,
        open: LegacySession,
        who: &'static str,
        number: u64,
        to: u32,
        pause: usize,
    ) {
        let arguments = json!({"to": to, "pause": pause});
        // A process reports the loss of another only after it has seen the store for a while. If
        // processes live for seconds only, that is after the last kill.
        let heard = open.call(number, "count", &arguments, self.patience()).await;
        if let Some(problem) = heard.problem(who, to) {
            self.wrong(who, &problem);
        }
        let ended = [&self.counts.broken, &self.counts.streams][usize::from(heard.is_whole())];
        ended.fetch_add(1, Ordering::Relaxed);
        self.counts.resumed.fetch_add(heard.resumed, Ordering::Relaxed);
        self.counts.events.fetch_add(heard.ids.len(), Ordering::Relaxed);
    }

    /// Runs calls that return the name of the caller.
    pub(super) async fn calls(self, who: &'static str, era: Era) {
        let Some(client) = self.connect(who, era).await else { return };
        while Instant::now() < self.end {
            match client.call_as::<String>("whoami", json!({})).await {
                Ok(name) if name == who => {
                    self.counts.calls.fetch_add(1, Ordering::Relaxed);
                }
                Ok(name) => self.wrong(who, &format!("was taken for {name}")),
                Err(error) if is_final(&error) => {
                    self.wrong(who, &format!("a call was refused: {error:?}"));
                }
                Err(_) => {}
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
}
