//! Starts a task and polls it until its result.

use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::time::sleep;

use super::client::{Client, Turn, wrong};
use super::message::get_task;

/// Timeout of a task.
const PATIENCE: Duration = Duration::from_secs(30);

impl Client {
    /// Starts a task with the first prepared request and polls it at the server's interval until it ends. Any end
    /// other than the expected result, and a timeout, are errors. Uses one request id per message.
    pub async fn follow(&mut self, id: &mut u64) -> Result<Turn, String> {
        let late = Instant::now() + PATIENCE;
        let template = &mut self.requests[0].template;
        let request = template.with_id(*id).to_vec();
        let (task, interval) = self.start(&request).await?;
        let mut turn = Turn::default();
        loop {
            *id += 1;
            turn.looks += 1;
            if self.is_over(*id, &task).await? {
                return Ok(turn);
            }
            if Instant::now() > late {
                return Err(format!("a task was lost: it is not over after {PATIENCE:?}"));
            }
            sleep(interval).await;
        }
    }

    /// Starts the task; returns its id and poll interval.
    async fn start(&mut self, request: &[u8]) -> Result<(String, Duration), String> {
        let reply = self.connection.exchange(request).await.map_err(|e| e.to_string())?;
        let message: Value = serde_json::from_slice(reply.body).unwrap_or_default();
        let result = &message["result"];
        match (result["resultType"].as_str(), result["taskId"].as_str()) {
            (Some("task"), Some(task)) => {
                let interval = result["pollIntervalMs"].as_u64().unwrap_or(0);
                Ok((task.to_owned(), Duration::from_millis(interval)))
            }
            _ => Err(wrong(reply.status, reply.body)),
        }
    }

    async fn is_over(&mut self, id: u64, task: &str) -> Result<bool, String> {
        let request = self.request("POST", Some(("tasks/get", Some(task))), &get_task(id, task));
        let reply = self.connection.exchange(&request).await.map_err(|e| e.to_string())?;
        let message: Value = serde_json::from_slice(reply.body).unwrap_or_default();
        match message["result"]["status"].as_str() {
            Some("working") => Ok(false),
            Some("completed") if self.requests[0].check.is_met(reply.body, id) => Ok(true),
            _ => Err(wrong(reply.status, reply.body)),
        }
    }
}
