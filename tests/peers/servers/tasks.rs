//! Tasks of a server on the first TypeScript SDK: npm's `server-everything` has one tool that runs only as
//! a task, and elicits input if its query is ambiguous.

use serde_json::json;
use wharf::{
    ErrorKind, args,
    model::ElicitResult,
    tasks::{TaskState, TaskStatus},
};

use crate::server_under_test::{TestTarget, list_checks, text};

const RESEARCH: &str = "simulate-research-query";

list_checks! { ALL:
    a_call_follows_its_task a_fresh_client_calls_what_runs_only_as_a_task a_call_answers_what_its_task_asks a_handle_follows_its_task
    a_handle_answers_what_its_task_asks a_task_is_cancelled an_unknown_task_is_not_found
}

async fn a_call_follows_its_task(target: &TestTarget) {
    let report = target.text(RESEARCH, args! { topic: "tides" }).await;
    assert!(report.contains("Research Report: tides"), "{report}");
}

/// The server sends a tool list change while it lists the tools, and rejects a plain call with a tool error.
async fn a_fresh_client_calls_what_runs_only_as_a_task(target: &TestTarget) {
    for lists in [true, false] {
        let client = target.connect_again(None).await.unwrap();
        if lists {
            let mut tools = client.tools();
            while let Some(tool) = tools.next().await {
                if tool.unwrap().name == RESEARCH {
                    break;
                }
            }
        }
        let report = client.call(RESEARCH, args! { topic: "shoals" }).await.unwrap();
        assert!(text(&report).contains("Research Report: shoals"), "{report:?}");
        client.close().await;
    }
}

async fn a_call_answers_what_its_task_asks(target: &TestTarget) {
    target.asked.answer_with(ElicitResult::accept(json!({ "interpretation": "snake" })));
    let report = target.text(RESEARCH, args! { topic: "python", ambiguous: true }).await;
    assert!(target.asked.last().contains("python"), "{}", target.asked.last());
    assert!(report.contains("python (snake)"), "{report}");
}

async fn a_handle_follows_its_task(target: &TestTarget) {
    let task = target.client.call_task(RESEARCH, args! { topic: "winds" }).await.unwrap();
    let id = task.id().expect("it is a task").to_owned();
    let mut changes = task.changes();
    let (mut statuses, mut said) = (Vec::new(), Vec::new());
    while let Some(change) = changes.next().await {
        let change = change.unwrap();
        assert_eq!(change.id, id);
        statuses.push(change.status());
        said.extend(change.message);
    }
    assert_eq!(statuses.first(), Some(&TaskStatus::Working), "{statuses:?}");
    assert_eq!(statuses.last(), Some(&TaskStatus::Completed), "{statuses:?}");
    assert!(said.iter().any(|it| it.contains("Analyzing")), "{said:?}");
    let again = target.client.task(&id).get().await.unwrap();
    let TaskState::Completed(result) = again.state else { panic!("{again:?}") };
    assert!(text(&result).contains("Research Report: winds"), "{result:?}");
}

async fn a_handle_answers_what_its_task_asks(target: &TestTarget) {
    target.asked.answer_with(ElicitResult::decline());
    let arguments = args! { topic: "currents", ambiguous: true };
    let task = target.client.call_task(RESEARCH, arguments).await.unwrap();
    let report = text(&task.wait().await.unwrap());
    assert!(report.contains("User declined"), "{report}");
    assert!(target.asked.last().contains("currents"), "{}", target.asked.last());
}

async fn a_task_is_cancelled(target: &TestTarget) {
    let task = target.client.call_task(RESEARCH, args! { topic: "whales" }).await.unwrap();
    task.cancel().await.unwrap();
    assert_eq!(task.get().await.unwrap().status(), TaskStatus::Cancelled);
    assert_eq!(task.wait().await.unwrap_err().kind(), ErrorKind::TaskCancelled);
    let again = target.client.task(task.id().unwrap()).cancel().await;
    assert!(again.is_err(), "a task that is over is not cancelled again");
}

async fn an_unknown_task_is_not_found(target: &TestTarget) {
    let error = target.client.task("unknown").get().await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::TaskNotFound | ErrorKind::InvalidParams),
        "{error:?}"
    );
}
