//! Servers that start without tasks and enable them later.

use crate::task_support::*;
use serde_json::json;
use wharf_model::{
    ErrorKind, Event, LiveSubscriptionFilter, Method, Notification, RequestBuilder,
    SubscriptionFilter, TASKS_EXTENSION, TaskRequest, TaskStatus,
};
use wharf_server::{Ctx, Router, TaskMode, Tool};

async fn slow(ctx: Ctx) -> String {
    tokio::time::sleep(seconds(10)).await;
    format!("done {}", ctx.task_id().is_some())
}

#[tokio::test(start_paused = true)]
async fn a_tool_added_later_enables_tasks() {
    let router = Router::builder().add(Tool::new("plain", slow)).build().unwrap();
    let client = client(&router);
    // A client subscribes before tasks are enabled, and to an unknown task.
    let mut request = client.request(RequestBuilder::new(Method::Listen));
    let filter = LiveSubscriptionFilter::new(SubscriptionFilter::default());
    request.filter = Some(filter.clone());
    let mut listening = client.start(request);
    let acknowledged = next(&mut listening).await;
    assert!(matches!(acknowledged, Event::Notify(Notification::Acknowledged(_))));
    let follow = |id: &str| filter.edit(|filter| filter.tasks.insert(id.to_owned()));
    follow("unknown");
    tokio::select! {
        event = next(&mut listening) => panic!("{event:?}"),
        () = settle() => {}
    }
    assert!(filter.read(|filter| filter.tasks.is_empty()));

    let late = Tool::new("late", slow).task(TaskMode::optional());
    router.registry().add(late).unwrap();
    let task = client.task("late").await;
    pass(seconds(11)).await;
    assert_eq!(completed_text(&client.get(&task.id).await), "done true");
    follow(&task.id);
    let Event::Notify(Notification::Task(told)) = next(&mut listening).await else {
        panic!("no notification was sent")
    };
    assert_eq!((told.id.as_str(), told.status()), (task.id.as_str(), TaskStatus::Completed));
}

#[tokio::test(start_paused = true)]
async fn code_starts_tasks_without_task_tools() {
    let router = Router::builder().add(Tool::new("plain", slow)).build().unwrap();
    let (timer, client) = (timer(), client(&router));
    let task = router.spawn_task("plain", json!({}), None, &timer).await.unwrap();
    assert_eq!(text(&task.wait().await.unwrap()), "done true");
    // Callers cannot access the task, as before.
    let refused = error(client.send_for_task(Method::GetTask, task.id()).await);
    assert_eq!(refused.kind, ErrorKind::CapabilityNotSupported);
}

#[tokio::test(start_paused = true)]
async fn declared_task_capabilities_enable_task_methods() {
    let router = Router::builder()
        .add(Tool::new("plain", slow))
        .capabilities(|it| drop(it.extensions.insert(TASKS_EXTENSION.into(), json!({}))))
        .build()
        .unwrap();
    let client = client(&router).with_principal("alice");
    assert_eq!(
        text(&result(client.with_tasking(TaskRequest::Wanted(None)).call("plain").await)),
        "done false"
    );
    let unknown = error(client.send_for_task(Method::GetTask, "unknown").await);
    assert_eq!(unknown.kind, ErrorKind::TaskNotFound);
}
