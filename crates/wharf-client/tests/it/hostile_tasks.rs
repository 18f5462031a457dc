//! Hostile task servers: everything they do is bounded.

use crate::support::{SECOND, answering, caller, caller_with, scripted_tasks::*};
use wharf_client::{CallOptions, ClientHandlerBuilder};
use wharf_model::{ElicitResult, ErrorKind, Method, TaskState};

fn answers() -> ClientHandlerBuilder {
    ClientHandlerBuilder::new().elicit(async |_| Ok(ElicitResult::decline()))
}

#[tokio::test(start_paused = true)]
async fn the_id_of_a_task_is_bounded() {
    let transport = FakeTaskServer::extension([]).transport();
    let mut first = task(TaskState::Working);
    first.id = "x".repeat(1 << 20);
    transport.first(first);
    let error = caller(&transport).call("slow", ()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ValidationFailed);
    assert!(error.message().len() < 200, "{}", error.message());
    assert!(transport.of(Method::GetTask).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_poll_must_return_the_requested_task() {
    let mut other = completed("another's secret");
    other.id = "t-2".into();
    let transport = FakeTaskServer::extension([other]).transport();
    let error = caller(&transport).call("slow", ()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ValidationFailed);
}

#[tokio::test(start_paused = true)]
async fn endless_input_requests_are_stopped() {
    let states = (0..100).map(|n| asking(&[(&*format!("q{n}"), "?")]));
    let transport = FakeTaskServer::extension(states).transport();
    let options = CallOptions::default().rounds(5);
    let error = caller_with(&transport, answers(), options).call("slow", ()).await.unwrap_err();
    assert!(error.message().contains("more than 5 times"), "{}", error.message());
    assert_eq!(transport.of(Method::UpdateTask).len(), 5);
    tokio::time::sleep(SECOND).await;
    assert_eq!(transport.of(Method::CancelTask).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_identifies_one_input_request() {
    let transport =
        FakeTaskServer::extension([asking(&[("q", "Your name?")]), asking(&[("q", "Your PIN?")])])
            .transport();
    let error = answering(&transport, answers()).call("slow", ()).await.unwrap_err();
    assert!(error.message().contains("with a key it has used"), "{}", error.message());
    // A request that stays open is answered once.
    let transport =
        FakeTaskServer::extension([]).always_state(shown(asking(&[("q", "?")]))).transport();
    let options = CallOptions::default().total(60 * SECOND);
    let error = caller_with(&transport, answers(), options).call("slow", ()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RequestTimeout);
    assert_eq!(transport.of(Method::UpdateTask).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn too_many_input_requests_at_once_are_rejected() {
    let keys: Vec<String> = (0..65).map(|n| format!("q{n}")).collect();
    let questions: Vec<(&str, &str)> = keys.iter().map(|key| (&**key, "?")).collect();
    let transport = FakeTaskServer::extension([asking(&questions)]).transport();
    let error = answering(&transport, answers()).call("slow", ()).await.unwrap_err();
    assert!(error.message().contains("more than 64 input requests"), "{}", error.message());
    assert!(transport.of(Method::UpdateTask).is_empty());
}

#[tokio::test(start_paused = true)]
async fn endless_notifications_do_not_starve_the_client() {
    let transport = FakeTaskServer::extension([])
        .always_works()
        .status_notifications(|tell| async move {
            let mut told = working("0");
            for n in 1_u64.. {
                told.message = Some(n.to_string());
                tell(told.clone());
                if n.is_multiple_of(1000) {
                    tokio::time::sleep(SECOND / 100).await;
                }
            }
        })
        .transport();
    let options = CallOptions::default().total(2 * SECOND);
    let error = caller_with(&transport, answers(), options).call("slow", ()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RequestTimeout);
}

#[tokio::test(start_paused = true)]
async fn a_final_state_ends_the_call() {
    // Everything after it is ignored.
    let transport = FakeTaskServer::extension([completed("done")]).always_works().transport();
    caller(&transport).call("slow", ()).await.unwrap();
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(transport.of(Method::GetTask).len(), 1);
}
