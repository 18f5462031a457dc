//! Servers whose tasks mean harm: everything they can do has an end.
#![allow(clippy::unwrap_used)]

mod support;

use support::{SECOND, answering, caller, caller_with, played::*};
use wharf_client::{CallOptions, ClientHandlerBuilder};
use wharf_model::{ElicitResult, ErrorKind, Method, TaskState};

fn answers() -> ClientHandlerBuilder {
    ClientHandlerBuilder::new().elicit(async |_| Ok(ElicitResult::decline()))
}

#[tokio::test(start_paused = true)]
async fn the_id_of_a_task_is_bounded() {
    let link = Played::shown([]).link();
    let mut first = task(TaskState::Working);
    first.id = "x".repeat(1 << 20);
    link.first(first);
    let error = caller(&link).call("slow", ()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::ValidationFailed);
    assert!(error.message.len() < 200, "{}", error.message);
    assert!(link.of(Method::GetTask).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_look_shows_the_task_that_was_asked_for() {
    let mut other = completed("another's secret");
    other.id = "t-2".into();
    let link = Played::shown([other]).link();
    let error = caller(&link).call("slow", ()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::ValidationFailed);
}

#[tokio::test(start_paused = true)]
async fn questions_without_end_have_one() {
    let looks = (0..100).map(|n| asking(&[(&*format!("q{n}"), "?")]));
    let link = Played::shown(looks).link();
    let options = CallOptions::default().rounds(5);
    let error = caller_with(&link, answers(), options).call("slow", ()).await.unwrap_err();
    assert!(error.message.contains("more than 5 times"), "{}", error.message);
    assert_eq!(link.of(Method::UpdateTask).len(), 5);
    tokio::time::sleep(SECOND).await;
    assert_eq!(link.of(Method::CancelTask).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_stands_for_one_question() {
    let link =
        Played::shown([asking(&[("q", "Your name?")]), asking(&[("q", "Your PIN?")])]).link();
    let error = answering(&link, answers()).call("slow", ()).await.unwrap_err();
    assert!(error.message.contains("with a key it has used"), "{}", error.message);
    // A question that is shown for ever is answered once.
    let link = Played::shown([]).always_looks(shown(asking(&[("q", "?")]))).link();
    let options = CallOptions::default().total(60 * SECOND);
    let error = caller_with(&link, answers(), options).call("slow", ()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::RequestTimeout);
    assert_eq!(link.of(Method::UpdateTask).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn too_many_questions_at_once_are_not_put() {
    let keys: Vec<String> = (0..65).map(|n| format!("q{n}")).collect();
    let questions: Vec<(&str, &str)> = keys.iter().map(|key| (&**key, "?")).collect();
    let link = Played::shown([asking(&questions)]).link();
    let error = answering(&link, answers()).call("slow", ()).await.unwrap_err();
    assert!(error.message.contains("more than 64 input requests"), "{}", error.message);
    assert!(link.of(Method::UpdateTask).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_tells_without_end_keeps_nobody_busy() {
    let link = Played::shown([])
        .always_works()
        .telling(|tell| async move {
            let mut told = working("0");
            for n in 1_u64.. {
                told.message = Some(n.to_string());
                tell(told.clone());
                if n.is_multiple_of(1000) {
                    tokio::time::sleep(SECOND / 100).await;
                }
            }
        })
        .link();
    let options = CallOptions::default().total(2 * SECOND);
    let error = caller_with(&link, answers(), options).call("slow", ()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::RequestTimeout);
}

#[tokio::test(start_paused = true)]
async fn an_end_is_an_end() {
    // Whatever comes after it is not looked at.
    let link = Played::shown([completed("done")]).always_works().link();
    caller(&link).call("slow", ()).await.unwrap();
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(link.of(Method::GetTask).len(), 1);
}
