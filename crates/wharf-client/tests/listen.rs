//! Changes, as the server tells of them.
#![allow(clippy::unwrap_used)]

mod support;

use futures_util::StreamExt;
use serde_json::json;
use support::{Fake, caller, names, tools};
use wharf_model::{
    ClientRequest, Error, ErrorKind, Method, Notification, Outbox, Outcome, Reply, Request,
    SubscriptionFilter,
};

fn wanted() -> SubscriptionFilter {
    SubscriptionFilter { tools: true, ..SubscriptionFilter::default() }
}

#[tokio::test]
async fn a_listen_begins_with_what_the_server_agreed_to() {
    let link = Fake::default()
        .play(async |request: Request, outbox: Outbox| {
            let filter = request.filter.as_ref().unwrap().read(SubscriptionFilter::clone);
            assert!(filter.tools && filter.prompts);
            // What comes before the agreement is nothing anybody waits for.
            outbox.notify(Notification::PromptsChanged);
            outbox.notify(Notification::Acknowledged(wanted()));
            outbox.notify(Notification::ToolsChanged);
            outbox.notify(Notification::Acknowledged(wanted()));
            outbox.notify(Notification::ToolsChanged);
            Reply::Listened.into()
        })
        .link();
    let listening =
        caller(&link).listen(SubscriptionFilter { prompts: true, ..wanted() }).await.unwrap();
    assert_eq!(listening.agreed(), &wanted());
    let heard: Vec<_> = listening.collect().await;
    assert!(matches!(heard[..], [Ok(Notification::ToolsChanged), Ok(Notification::ToolsChanged)]));
    assert_eq!(link.sent()[0].method, Method::Listen);
}

#[tokio::test]
async fn a_subscription_listens_to_one_resource() {
    let link = Fake::default()
        .play(async |request: Request, outbox: Outbox| {
            let filter = request.filter.as_ref().unwrap().read(SubscriptionFilter::clone);
            assert_eq!(filter.uris, ["a:b".to_owned()].into());
            outbox.notify(Notification::Acknowledged(filter));
            // A part of what was subscribed to may be told by its own name.
            outbox.notify(Notification::ResourceUpdated { uri: "a:b/part".into() });
            std::future::pending().await
        })
        .link();
    let mut listening = caller(&link).subscribe("a:b").await.unwrap();
    let heard = listening.next().await.unwrap().unwrap();
    assert!(matches!(heard, Notification::ResourceUpdated { uri } if &*uri == "a:b/part"));
    drop(listening);
    assert_eq!(link.dropped(), 1);
}

#[tokio::test]
async fn a_listen_that_is_lost_ends_with_an_error() {
    let lost = || Error::new(ErrorKind::ConnectionClosed);
    let link = Fake::default()
        .play(async move |_, outbox: Outbox| {
            outbox.notify(Notification::Acknowledged(wanted()));
            tokio::task::yield_now().await;
            lost().into()
        })
        .then(lost())
        .then(Reply::Listened)
        .link();
    let caller = caller(&link);
    let mut listening = caller.listen(wanted()).await.unwrap();
    assert_eq!(listening.next().await.unwrap().unwrap_err(), lost());
    assert!(listening.next().await.is_none());
    assert_eq!(caller.listen(wanted()).await.unwrap_err(), lost());
    let error = caller.listen(wanted()).await.unwrap_err();
    assert!(error.kind.is_subscription_failed(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_agrees_is_left() {
    let link = Fake::default().play(async |_, _| std::future::pending::<Outcome>().await).link();
    let error = caller(&link).listen(wanted()).await.unwrap_err();
    assert!(error.kind.is_request_timeout() && error.message.contains("`idle`"), "{error}");
    assert_eq!(link.dropped(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_listen_may_be_silent_for_as_long_as_it_likes() {
    let link = Fake::default()
        .play(async |_, outbox: Outbox| {
            outbox.notify(Notification::Acknowledged(wanted()));
            tokio::time::sleep(support::SECOND * 100_000).await;
            outbox.notify(Notification::ToolsChanged);
            Reply::Listened.into()
        })
        .link();
    let mut listening = caller(&link).listen(wanted()).await.unwrap();
    assert!(listening.next().await.unwrap().is_ok());
    assert!(listening.next().await.is_none());
}

#[tokio::test]
async fn what_a_listen_hears_ends_what_was_kept() {
    let fresh = |name: &'static str| {
        let info = wharf_model::ToolInfo::without_parameters(name);
        Outcome::from(Reply::Tools(support::page([info], None, 60_000)))
    };
    let link = Fake::default()
        .then(fresh("old"))
        .play(async |_, outbox: Outbox| {
            outbox.notify(Notification::Acknowledged(wanted()));
            outbox.notify(Notification::ToolsChanged);
            std::future::pending().await
        })
        .then(tools(&["new"], None))
        .link();
    let caller = caller(&link);
    caller.tools().all().await.unwrap();
    let mut listening = caller.listen(wanted()).await.unwrap();
    listening.next().await.unwrap().unwrap();
    assert_eq!(names(&caller.tools().all().await.unwrap()), ["new"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_everything_but_what_it_agrees_to_is_left() {
    let link = Fake::default()
        .play(async |_, outbox: Outbox| {
            loop {
                for _ in 0..1000 {
                    outbox.notify(Notification::PromptsChanged);
                }
                outbox.room().await;
                tokio::time::advance(support::SECOND).await;
            }
        })
        .link();
    let error = caller(&link).listen(wanted()).await.unwrap_err();
    assert!(error.kind.is_request_timeout(), "{error}");
}

#[tokio::test]
async fn questions_do_not_belong_into_a_listen() {
    let link = Fake::default()
        .play(async |_, outbox: Outbox| {
            outbox.notify(Notification::Acknowledged(wanted()));
            outbox.ask(ClientRequest::Roots).await.unwrap_err().into()
        })
        .link();
    let mut listening = caller(&link).listen(wanted()).await.unwrap();
    let error = listening.next().await.unwrap().unwrap_err();
    assert!(error.kind.is_invalid_request() && error.message.contains("roots/list"), "{error}");
    assert_eq!(link.params(), [json!({})]);
}
