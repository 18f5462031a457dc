//! Change notifications of the gateway.

use std::{future::poll_fn, sync::Arc, task::Poll, time::Duration};

use wharf_gateway::{Gateway, UpstreamServer};
use wharf_model::{
    ActiveCall, Deadlines, Event, LiveSubscriptionFilter, Method, Notification, RequestBuilder,
    SubscriptionFilter,
};
use wharf_server::{Resource, Router, Tool};
use wharf_testbed::TokioTimer;

use crate::support::{Health, TestServer, call, pass, tools};

const SECOND: Duration = Duration::from_secs(1);

struct Subscription(ActiveCall);

impl Subscription {
    fn start(gateway: &Gateway, filter: &LiveSubscriptionFilter) -> Self {
        let mut request = RequestBuilder::new(Method::Listen).build();
        request.filter = Some(filter.clone());
        let timer = Arc::new(TokioTimer);
        Subscription(ActiveCall::start(gateway, request, timer, Deadlines::NONE))
    }

    /// Returns what was reported within this time.
    async fn heard(&mut self, time: Duration) -> Vec<String> {
        let mut heard = Vec::new();
        let end = tokio::time::sleep(time);
        tokio::pin!(end);
        loop {
            tokio::select! {
                event = poll_fn(|cx| self.0.poll_event(cx)) => match event {
                    Event::Notify(Notification::Acknowledged(_)) => {}
                    Event::Notify(Notification::ToolsChanged) => heard.push("tools".to_owned()),
                    Event::Notify(Notification::ResourcesChanged) => heard.push("resources".to_owned()),
                    Event::Notify(Notification::ResourceUpdated { uri }) => heard.push(uri.to_string()),
                    other => panic!("{other:?}"),
                },
                () = &mut end => return heard,
            }
        }
    }
}

fn lists() -> LiveSubscriptionFilter {
    let filter = SubscriptionFilter::default().tools(true).prompts(true).resources(true);
    LiveSubscriptionFilter::new(filter)
}

#[tokio::test(start_paused = true)]
async fn the_first_event_is_the_acknowledgement() {
    let server = TestServer::with_tools("one", &["a"]);
    let gateway = Gateway::builder().upstream("one", &server).build().unwrap();
    let filter = SubscriptionFilter::default().tools(true).tasks(["t"]);
    let mut subscription = Subscription::start(&gateway, &LiveSubscriptionFilter::new(filter));
    let event = poll_fn(|cx| Poll::Ready(subscription.0.poll_event(cx))).await;
    let Poll::Ready(Event::Notify(Notification::Acknowledged(agreed))) = event else {
        panic!("{event:?}")
    };
    assert_eq!(agreed, SubscriptionFilter::default().tools(true));
}

#[tokio::test(start_paused = true)]
async fn many_changes_of_one_server_are_one_notification_and_one_list() {
    let (one, two) = (TestServer::with_tools("one", &["a"]), TestServer::with_tools("two", &["a"]));
    let gateway = Gateway::builder().upstream("one", &one).upstream("two", &two).build().unwrap();
    tools(&gateway).await;
    let mut subscription = Subscription::start(&gateway, &lists());
    assert!(subscription.heard(SECOND).await.is_empty());
    let (lists_of_one, lists_of_two) = (one.lists(), two.lists());
    for name in ["b", "c", "d"] {
        one.router().registry().add(Tool::new(name, async || "x")).unwrap();
        pass(Duration::from_millis(10)).await;
    }
    assert_eq!(subscription.heard(SECOND).await, ["tools"]);
    assert_eq!(tools(&gateway).await, ["one_a", "one_b", "one_c", "one_d", "two_a"]);
    assert_eq!((one.lists(), two.lists()), (lists_of_one + 1, lists_of_two));
    // A list that is the same as before is no change.
    one.router().registry().tools_changed();
    assert!(subscription.heard(SECOND).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn tools_that_appear_and_are_withdrawn_are_reported() {
    let (one, two) = (TestServer::with_tools("one", &["a"]), TestServer::with_tools("two", &["a"]));
    two.set(Health::Down);
    let late = UpstreamServer::new(&two).grace(90 * SECOND);
    let gateway = Gateway::builder().upstream("one", &one).upstream("two", late).build().unwrap();
    tools(&gateway).await;
    let mut subscription = Subscription::start(&gateway, &lists());
    assert!(subscription.heard(Duration::from_millis(1)).await.is_empty());
    two.set(Health::Up);
    assert_eq!(subscription.heard(SECOND).await, ["tools"]);
    two.set(Health::Down);
    assert!(call(&gateway, "two_a").await.is_error);
    assert!(subscription.heard(80 * SECOND).await.is_empty());
    assert_eq!(subscription.heard(15 * SECOND).await, ["tools"]);
}

#[tokio::test(start_paused = true)]
async fn updates_of_resources_have_public_uris() {
    let files = || Router::builder().add(Resource::new("mem:a", async || "a")).build().unwrap();
    let (one, two) = (TestServer::new(files()), TestServer::new(files()));
    let gateway = Gateway::builder().upstream("one", &one).upstream("two", &two).build().unwrap();
    crate::support::list(&gateway, Method::ListResources, "resources", "uri").await;
    let filter = LiveSubscriptionFilter::default();
    let mut subscription = Subscription::start(&gateway, &filter);
    subscription.heard(SECOND).await;
    one.router().registry().resource_updated("mem:a");
    assert!(subscription.heard(SECOND).await.is_empty());

    filter.edit(|filter| filter.uris.insert("two+mem:a".into()));
    // It may have changed before the server knew of the subscription.
    assert_eq!(subscription.heard(SECOND).await, ["two+mem:a"]);
    one.router().registry().resource_updated("mem:a");
    two.router().registry().resource_updated("mem:a");
    assert_eq!(subscription.heard(SECOND).await, ["two+mem:a"]);

    filter.edit(|filter| filter.uris.clear());
    subscription.heard(SECOND).await;
    two.router().registry().resource_updated("mem:a");
    assert!(subscription.heard(SECOND).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_change_before_the_servers_subscription_began_is_not_missed() {
    let server = TestServer::with_tools("one", &["a"]);
    let gateway = Gateway::builder().upstream("one", &server).build().unwrap();
    server.on_list(|server| {
        server.router().registry().add(Tool::new("b", async || "b")).unwrap();
    });
    assert_eq!(tools(&gateway).await, ["a"]);
    pass(SECOND).await;
    assert_eq!(tools(&gateway).await, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_has_one_subscription_for_all_clients() {
    let files = Router::builder().add(Resource::new("mem:a", async || "a")).build().unwrap();
    let server = TestServer::new(files);
    let gateway = Gateway::builder().upstream("one", &server).build().unwrap();
    crate::support::list(&gateway, Method::ListResources, "resources", "uri").await;
    let filter = || LiveSubscriptionFilter::new(SubscriptionFilter::default().uris(["mem:a"]));
    let mut first = Subscription::start(&gateway, &filter());
    let mut second = Subscription::start(&gateway, &filter());
    first.heard(SECOND).await;
    second.heard(SECOND).await;
    assert_eq!(server.subscribed(), ["mem:a"]);
    drop(first);
    server.router().registry().resource_updated("mem:a");
    assert_eq!(second.heard(SECOND).await, ["mem:a"]);
    assert_eq!(server.subscribed(), ["mem:a"]);
    drop(second);
    pass(SECOND).await;
    assert!(server.subscribed().is_empty());
}
