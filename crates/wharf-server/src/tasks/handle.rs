//! Tasks started from code.

use std::{fmt, sync::Arc};

use serde_json::Value;
use wharf_model::{
    Error, ErrorKind, Method, Principal, RequestBuilder, Task, TaskStatus, Timer, ToolResult,
    Trusted,
};

use crate::router::Router;
use crate::{
    router::call_tool,
    tasks::{
        create, methods,
        runtime::TASK_RUNTIME,
        storage::{
            UpdateResult,
            record::{ChangeRejection, TaskEnd, TaskRecord},
        },
        task_view,
    },
};

impl Router {
    /// Starts a task from code: a call of `tool` without a waiting caller, on behalf of
    /// `principal`. It is in the server's store when this returns.
    ///
    /// ```
    /// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod model { pub use super::*; } pub mod server { pub use super::*; } pub mod tasks { pub use super::*; } }
    /// use std::sync::Arc;
    /// use wharf::{Error, Tool, model::Timer, server::Router, tasks::TaskMode};
    ///
    /// async fn nightly(router: &Router, timer: &Arc<dyn Timer>) -> Result<(), Error> {
    ///     let task = router.spawn_task("report", serde_json::json!({}), None, timer).await?;
    ///     println!("{} began", task.id());
    ///     println!("{:?}", task.wait().await?);
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// If the tool does not exist for this principal, or the task cannot be created.
    pub async fn spawn_task(
        &self,
        tool: &str,
        arguments: Value,
        principal: Option<Principal>,
        timer: &Arc<dyn Timer>,
    ) -> Result<SpawnedTask, Error> {
        let call = RequestBuilder::new(Method::CallTool).target(tool);
        let mut request = call.arguments(&arguments.to_string()).build();
        match principal {
            Some(principal) => request.scope.insert(principal),
            None => request.scope.insert(Trusted),
        }
        if !arguments.is_object() {
            let text = "Invalid arguments: they must be a JSON object";
            return Err(Error::new(ErrorKind::InvalidToolArguments).with_message(text));
        }
        let catalog = self.server.catalog.load();
        let found = call_tool::find_tool(&self.server, &catalog.lists, &request);
        let found = found.cloned().map_err(|error| *error)?;
        // Starting a task enables tasks.
        self.server.tasks.enable(TASK_RUNTIME);
        let task = create::create_task(&self.server, &found, request, None, timer).await?;
        Ok(SpawnedTask { router: self.clone(), id: task.id, timer: timer.clone() })
    }
}

/// Handle of a task started from code.
#[derive(Clone)]
pub struct SpawnedTask {
    router: Router,
    id: String,
    timer: Arc<dyn Timer>,
}

impl SpawnedTask {
    /// The task's id. Its owner can read its result with it.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the task as it is now.
    ///
    /// # Errors
    /// If it has expired, or the store cannot be reached.
    pub async fn get(&self) -> Result<Task, Error> {
        Ok(task_view::task(&self.router.server, &self.load().await?))
    }

    /// Waits for the end of the task, whichever process runs it.
    ///
    /// # Errors
    /// If it failed, was cancelled or has expired, or the store cannot be reached.
    pub async fn wait(&self) -> Result<ToolResult, Error> {
        let watch = self.router.server.tasks.scheduler().watch(&self.id);
        loop {
            match self.load().await?.end {
                Some(TaskEnd::Completed(result)) => return Ok(*result),
                Some(end) => return Err(methods::outcome(&end).err().unwrap_or_else(unexpected)),
                None => {
                    watch.wake_signal.wait(&*self.timer, Some(watch.next_check(&*self.timer))).await
                }
            }
        }
    }

    /// Cancels the task and returns its status. A task that has ended keeps its status.
    ///
    /// # Errors
    /// If it has expired, or the store cannot be reached.
    pub async fn cancel(&self) -> Result<TaskStatus, Error> {
        let tasks = self.router.server.tasks.scheduler();
        let update =
            tasks.task_store.update(&self.id, None, &*self.timer, TaskRecord::cancel).await?;
        let record = match update {
            UpdateResult::Done(record, _) => record,
            UpdateResult::Refused(ChangeRejection::Over, record) => record,
            _ => return Err(Error::new(ErrorKind::TaskNotFound)),
        };
        tasks.drop_run(&self.id);
        tasks.task_store.publish_changed(&self.id).await;
        Ok(task_view::task(&self.router.server, &record).status())
    }

    async fn load(&self) -> Result<TaskRecord, Error> {
        let found = self.router.server.tasks.scheduler().task_store.load(&self.id).await?;
        found.ok_or_else(|| Error::new(ErrorKind::TaskNotFound))
    }
}

fn unexpected() -> Error {
    Error::new(ErrorKind::InternalError)
}

impl fmt::Debug for SpawnedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpawnedTask").finish_non_exhaustive()
    }
}
