//! Callers that create tasks, respond to their client requests, cancel some, and try to access
//! those of others.

use std::{sync::atomic::Ordering, time::Duration};

use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use wharf::{
    Client, Era, ErrorKind,
    tasks::{TaskState, TaskStatus},
};

use super::{Load, SETTLE_TIMEOUT, is_final};
use crate::{
    random::SeededRandom,
    recording_tools::WorkArgs,
    task_history::{TaskEvent, TaskView},
};

impl Load {
    /// Creates tasks, and follows all of them.
    pub(super) async fn tasks(self, who: &'static str, era: Era) {
        let Some(client) = self.connect(who, era).await else { return };
        let mut random = SeededRandom::of(u64::from(std::process::id()), who);
        let mut followed = JoinSet::new();
        for number in 0.. {
            if Instant::now() >= self.end {
                break;
            }
            let key = format!("{who}-{number}");
            let steps = 1 + u32::try_from(random.below(5)).unwrap_or(0);
            let (pause, ask) = (random.below(300) as u64, random.percent(30));
            let job = WorkArgs { key: key.clone(), steps, pause, ask };
            match client.call_task("work", &job).await {
                Ok(handle) => match handle.id() {
                    Some(id) => {
                        self.add(&key, TaskEvent::Acknowledged);
                        self.known().push((key.clone(), id.to_owned()));
                        let spawned = self.clone().follow(client.clone(), era, key, id.to_owned());
                        followed.spawn(spawned);
                    }
                    None => self.wrong(&key, "it was no task"),
                },
                Err(error) => {
                    self.counts.refused.fetch_add(1, Ordering::Relaxed);
                    if is_final(&error) {
                        self.wrong(&key, &format!("it was refused: {error:?}"));
                    }
                }
            }
            self.spy(&client, who, &mut random).await;
            sleep(random.millis(50..250)).await;
        }
        while followed.join_next().await.is_some() {}
    }

    /// Polls a task until it has ended, and once more.
    async fn follow(self, client: Client, era: Era, key: String, id: String) {
        let mut random = SeededRandom::of(1, &key);
        let impatient = random.percent(15);
        let mut seen = 0;
        while seen < 2 && Instant::now() < self.end + SETTLE_TIMEOUT {
            sleep(random.millis(100..500)).await;
            let since = self.history.len();
            // A new handle each time: an old one caches the end of its task.
            let task = match client.task(&id).get().await {
                Ok(task) => task,
                Err(error) if is_final(&error) => {
                    self.wrong(&key, &format!("its owner was told {error:?}"));
                    return;
                }
                Err(_) => continue,
            };
            let text = match &task.state {
                TaskState::Completed(result) => {
                    result.structured.as_ref().map(|it| it.get().to_owned()).unwrap_or_default()
                }
                TaskState::Failed(error) => error.message.to_string(),
                _ => String::new(),
            };
            let status = task.status();
            self.add(
                &key,
                TaskEvent::Seen(TaskView { since, status: status.as_str().into(), text }),
            );
            match (status, era) {
                (TaskStatus::InputRequired, Era::Modern) => {
                    // Sent twice, as if the first confirmation had been lost: the second must not
                    // count.
                    for _ in 0..2 {
                        let word = self.word(&key);
                        let go = json!({"go": {"action": "accept", "content": {"word": word}}});
                        let acknowledged = client.task(&id).update(go).await.is_ok();
                        self.add(&key, TaskEvent::Answered { word, acknowledged });
                    }
                }
                // The other dialect sends client requests to the call that waits for the result.
                (TaskStatus::InputRequired, Era::Legacy) => {
                    let wait = client.task(&id).wait().timeout(Duration::from_secs(5));
                    let _ = wait.await;
                }
                (TaskStatus::Working, _) if impatient => {
                    self.cancel(&client, era, &key, &id).await;
                }
                _ => {}
            }
            seen += usize::from(status.is_terminal());
        }
    }

    /// Only the other dialect distinguishes a cancelled task from one that had ended.
    async fn cancel(&self, client: &Client, era: Era, key: &str, id: &str) {
        if client.task(id).cancel().await.is_ok() {
            let cancelled = match era == Era::Modern {
                true => TaskEvent::CalledOff,
                false => TaskEvent::Cancelled { too_late: false },
            };
            self.add(key, cancelled);
        }
    }

    /// Requests a task of another caller.
    async fn spy(&self, client: &Client, who: &str, random: &mut SeededRandom) {
        let other = {
            let known = self.known();
            let others: Vec<_> = known.iter().filter(|it| !it.0.starts_with(who)).collect();
            if others.is_empty() {
                return;
            }
            (*random.pick(&others)).clone()
        };
        match client.task(&other.1).get().await {
            Err(error) if error.kind() == ErrorKind::TaskNotFound || !is_final(&error) => {}
            told => self.wrong(&other.0, &format!("{who} was told {told:?}")),
        }
    }
}
