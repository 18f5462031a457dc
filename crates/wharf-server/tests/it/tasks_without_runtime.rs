//! Tasks without an async runtime: they run on their own threads.

use std::{task::Poll, thread};

use crate::support::*;
use wharf_model::{
    Event, Method, Outcome, Reply, RequestBuilder, Task, TaskRequest, TaskState, TaskStatus,
};
use wharf_server::{Ctx, Router, TaskMode, Tool};

fn end(router: &Router, method: Method, target: &str) -> Outcome {
    let mut request = RequestBuilder::new(method).target(target).build();
    request.tasking = TaskRequest::Welcome;
    let mut active_call = start_without_runtime(router, request);
    loop {
        match poll(&mut active_call) {
            Poll::Ready(Event::Done(outcome)) => return outcome,
            _ => thread::yield_now(),
        }
    }
}

fn get(router: &Router, id: &str) -> Box<Task> {
    match end(router, Method::GetTask, id) {
        Outcome::Complete(Reply::Task(task)) => task,
        other => panic!("not a task: {other:?}"),
    }
}

#[test]
fn a_task_needs_no_runtime() {
    async fn works(ctx: Ctx) -> String {
        ctx.step("s", async { "done".to_owned() }).await
    }
    let tool = Tool::new("works", works).task(TaskMode::optional());
    let router = Router::builder().add(tool).build().unwrap();
    let Outcome::Task(task) = end(&router, Method::CallTool, "works") else { panic!("no task") };
    while get(&router, &task.id).status() == TaskStatus::Working {
        thread::yield_now();
    }
    let TaskState::Completed(result) = get(&router, &task.id).state else {
        panic!("not completed")
    };
    assert_eq!(result.content[0].as_text(), Some("done"));
}
