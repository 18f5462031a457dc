//! Subscriptions to change notifications.

use crate::support::{FakeTransport, caller, names, tools};
use futures_util::StreamExt;
use serde_json::json;
use wharf_model::{
    ClientRequest, Error, ErrorKind, Method, Notification, Outbox, Outcome, Reply, Request,
    SubscriptionFilter,
};

fn wanted() -> SubscriptionFilter {
    SubscriptionFilter::default().tools(true)
}

#[tokio::test]
async fn a_subscription_starts_with_the_acknowledged_filter() {
    let transport = FakeTransport::default()
        .play(async |request: Request, outbox: Outbox| {
            let filter = request.filter.as_ref().unwrap().read(SubscriptionFilter::clone);
            assert!(filter.tools && filter.prompts);
            // Notifications before the acknowledgement are dropped.
            outbox.notify(Notification::PromptsChanged);
            outbox.notify(Notification::Acknowledged(wanted()));
            outbox.notify(Notification::ToolsChanged);
            outbox.notify(Notification::Acknowledged(wanted()));
            outbox.notify(Notification::ToolsChanged);
            Reply::Listened.into()
        })
        .transport();
    let listening = caller(&transport).listen(wanted().prompts(true)).await.unwrap();
    assert_eq!(listening.agreed(), &wanted());
    let heard: Vec<_> = listening.collect().await;
    assert!(matches!(heard[..], [Ok(Notification::ToolsChanged), Ok(Notification::ToolsChanged)]));
    assert_eq!(transport.sent()[0].method, Method::Listen);
}

#[tokio::test]
async fn subscribe_listens_to_one_resource() {
    let transport = FakeTransport::default()
        .play(async |request: Request, outbox: Outbox| {
            let filter = request.filter.as_ref().unwrap().read(SubscriptionFilter::clone);
            assert_eq!(filter.uris, ["a:b".to_owned()].into());
            outbox.notify(Notification::Acknowledged(filter));
            // A notification may name a part of the subscribed resource.
            outbox.notify(Notification::ResourceUpdated { uri: "a:b/part".into() });
            std::future::pending().await
        })
        .transport();
    let mut listening = caller(&transport).subscribe("a:b").await.unwrap();
    let heard = listening.next().await.unwrap().unwrap();
    assert!(matches!(heard, Notification::ResourceUpdated { uri } if &*uri == "a:b/part"));
    drop(listening);
    assert_eq!(transport.dropped(), 1);
}

#[tokio::test]
async fn a_lost_subscription_ends_with_an_error() {
    let lost = || Error::new(ErrorKind::ConnectionClosed);
    let transport = FakeTransport::default()
        .play(async move |_, outbox: Outbox| {
            outbox.notify(Notification::Acknowledged(wanted()));
            tokio::task::yield_now().await;
            lost().into()
        })
        .then(lost())
        .then(Reply::Listened)
        .transport();
    let caller = caller(&transport);
    let mut listening = caller.listen(wanted()).await.unwrap();
    assert_eq!(listening.next().await.unwrap().unwrap_err(), lost());
    assert!(listening.next().await.is_none());
    assert_eq!(caller.listen(wanted()).await.unwrap_err(), lost());
    let error = caller.listen(wanted()).await.unwrap_err();
    assert!(error.kind().is_validation_failed(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_subscription_without_acknowledgement_times_out() {
    let transport = FakeTransport::default()
        .play(async |_, _| std::future::pending::<Outcome>().await)
        .transport();
    let error = caller(&transport).listen(wanted()).await.unwrap_err();
    assert!(error.kind().is_request_timeout() && error.message().contains("`idle`"), "{error}");
    assert_eq!(transport.dropped(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_has_no_idle_timeout() {
    let transport = FakeTransport::default()
        .play(async |_, outbox: Outbox| {
            outbox.notify(Notification::Acknowledged(wanted()));
            tokio::time::sleep(crate::support::SECOND * 100_000).await;
            outbox.notify(Notification::ToolsChanged);
            Reply::Listened.into()
        })
        .transport();
    let mut listening = caller(&transport).listen(wanted()).await.unwrap();
    assert!(listening.next().await.unwrap().is_ok());
    assert!(listening.next().await.is_none());
}

#[tokio::test]
async fn notifications_of_a_subscription_invalidate_the_cache() {
    let fresh = |name: &'static str| {
        let info = wharf_model::ToolInfo::without_parameters(name);
        Outcome::from(Reply::Tools(crate::support::page([info], None, 60_000)))
    };
    let transport = FakeTransport::default()
        .then(fresh("old"))
        .play(async |_, outbox: Outbox| {
            outbox.notify(Notification::Acknowledged(wanted()));
            outbox.notify(Notification::ToolsChanged);
            std::future::pending().await
        })
        .then(tools(&["new"], None))
        .transport();
    let caller = caller(&transport);
    caller.tools().all().await.unwrap();
    let mut listening = caller.listen(wanted()).await.unwrap();
    listening.next().await.unwrap().unwrap();
    assert_eq!(names(&caller.tools().all().await.unwrap()), ["new"]);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_events_before_the_acknowledgement_times_out() {
    let transport = FakeTransport::default()
        .play(async |_, outbox: Outbox| {
            loop {
                for _ in 0..1000 {
                    outbox.notify(Notification::PromptsChanged);
                }
                outbox.wait_for_capacity().await;
                tokio::time::advance(crate::support::SECOND).await;
            }
        })
        .transport();
    let error = caller(&transport).listen(wanted()).await.unwrap_err();
    assert!(error.kind().is_request_timeout(), "{error}");
}

#[tokio::test]
async fn server_requests_during_a_subscription_are_rejected() {
    let transport = FakeTransport::default()
        .play(async |_, outbox: Outbox| {
            outbox.notify(Notification::Acknowledged(wanted()));
            outbox.ask(ClientRequest::Roots).await.unwrap_err().into()
        })
        .transport();
    let mut listening = caller(&transport).listen(wanted()).await.unwrap();
    let error = listening.next().await.unwrap().unwrap_err();
    assert!(error.kind().is_invalid_request() && error.message().contains("roots/list"), "{error}");
    assert_eq!(transport.params(), [json!({})]);
}
