//! Chaos test: processes are lost at random moments while their tasks continue.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::task_support::*;
use serde_json::json;
use wharf_model::{Method, Outcome, Reply, RequestBuilder, TaskState, TaskStatus};
use wharf_server::{ClientRequestError, Ctx, Router, State, TaskMode, Tool};

/// Pseudo-random numbers, the same in each run.
struct SeededRandom(u64);

impl SeededRandom {
    fn draw(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % below
    }
}

/// External record of the effects: which steps of which task have returned, and their results.
#[derive(Clone, Default)]
struct EffectLog(Arc<Mutex<BTreeMap<(String, u64), u64>>>);

impl EffectLog {
    fn begins(&self, task: &str, step: u64) {
        let seen = self.0.lock().unwrap();
        assert!(!seen.contains_key(&(task.to_owned(), step)), "a step ran after it had returned");
    }

    fn returned(&self, task: &str, step: u64, value: u64) {
        let mut seen = self.0.lock().unwrap();
        let first = *seen.entry((task.to_owned(), step)).or_insert(value);
        assert_eq!(first, value, "a step returned two results");
    }

    /// Asserts that each task ended with the sum of its four steps.
    fn agrees(&self, ends: &BTreeMap<String, String>) {
        let seen = self.0.lock().unwrap();
        for (task, end) in ends {
            let steps: Vec<u64> = (0..4).map(|step| seen[&(task.clone(), step)]).collect();
            assert_eq!(*end, steps.iter().sum::<u64>().to_string());
        }
    }
}

async fn works(
    State(effect_log): State<EffectLog>,
    State(drawn): State<Counter>,
    ctx: Ctx,
) -> Result<String, ClientRequestError> {
    let task = ctx.task_id().unwrap();
    let mut sum = 0;
    for step in 0..4 {
        let effect = async {
            effect_log.begins(&task, step);
            tokio::time::sleep(seconds(3)).await;
            drawn.hit() as u64
        };
        let value = ctx.step("effect", effect).await;
        effect_log.returned(&task, step, value);
        sum += value;
        if step == 1 {
            ctx.ask::<Confirm>("go on", "Go on?").await?;
        }
        tokio::time::sleep(seconds(5)).await;
    }
    Ok(sum.to_string())
}

fn node(test_stores: &TestStores, effect_log: &EffectLog, drawn: &Counter) -> Router {
    let options = quick().attempts(1000).running(3);
    let server = test_stores.server().tasks(options).state(effect_log.clone()).state(drawn.clone());
    let tool = Tool::new("works", works).task(TaskMode::optional());
    let router = server.add(tool).build().unwrap();
    router.start_tasks(&timer());
    router
}

/// Responds to client requests through any node; returns whether all tasks have ended.
async fn respond_and_check(
    router: &Router,
    ids: &[String],
    ends: &mut BTreeMap<String, String>,
) -> bool {
    let client = client(router);
    for id in ids {
        let task = client.get(id).await;
        match &task.state {
            TaskState::InputRequired(_) => {
                let update = client.update(id, json!({"go on": sure()})).await;
                assert!(matches!(update, Outcome::Complete(Reply::TaskUpdated)));
            }
            TaskState::Working => {}
            TaskState::Completed(result) => {
                // An assertion in the record of effects failed.
                assert!(!result.is_error, "{result:?}");
                let end = ends.entry(id.clone()).or_insert_with(|| text(result).to_owned());
                assert_eq!(end, text(result), "a task ended twice");
            }
            other => panic!("{other:?}"),
        }
        if ends.contains_key(id) {
            assert_eq!(task.status(), TaskStatus::Completed);
        }
    }
    ends.len() == ids.len()
}

async fn survive(seed: u64) {
    let (test_stores, effect_log, drawn) =
        (TestStores::new(), EffectLog::default(), Counter::default());
    let mut lot = SeededRandom(seed);
    let mut nodes: Vec<Router> = (0..3).map(|_| node(&test_stores, &effect_log, &drawn)).collect();
    let mut ids = vec![];
    for number in 0..6 {
        ids.push(client(&nodes[number % 3]).task("works").await.id);
    }
    let mut ends = BTreeMap::new();
    for _ in 0..2000 {
        pass(Duration::from_millis(500 + lot.draw(9000))).await;
        match lot.draw(4) {
            // Killed and restarted.
            0 => {
                let index = usize::try_from(lot.draw(3)).unwrap();
                nodes[index] = node(&test_stores, &effect_log, &drawn);
            }
            // Graceful shutdown.
            1 => {
                let index = usize::try_from(lot.draw(3)).unwrap();
                nodes[index].release_tasks().await;
                nodes[index] = node(&test_stores, &effect_log, &drawn);
            }
            2 if lot.draw(3) == 0 => {
                test_stores.records.set_broken(true);
                pass(Duration::from_millis(lot.draw(50_000))).await;
                test_stores.records.set_broken(false);
            }
            _ => {}
        }
        if respond_and_check(&nodes[0], &ids, &mut ends).await {
            return effect_log.agrees(&ends);
        }
    }
    let left = client(&nodes[0]).send(RequestBuilder::new(Method::GetTask).target(&ids[0])).await;
    panic!("seed {seed}: not all tasks came to an end: {ends:?} {left:?}");
}

#[tokio::test(start_paused = true)]
async fn every_task_ends_once_and_no_step_that_returned_runs_again() {
    let seeds = std::env::var("WHARF_SEEDS").map_or(25, |seeds| seeds.parse().unwrap());
    for seed in 0..seeds {
        survive(seed).await;
    }
}
