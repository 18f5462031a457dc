//! Servers that are slow, down, hanging or crashing, beside servers that work.

use std::time::Duration;

use tokio::time::Instant;
use wharf_gateway::{Gateway, UpstreamServer};
use wharf_model::{ErrorKind, Method, RequestBuilder};
use wharf_server::{Resource, Router, Tool};

use crate::support::{Health, TestServer, call, discover, error, pass, text, tools};

const SECOND: Duration = Duration::from_secs(1);

fn gateway() -> (TestServer, TestServer, Gateway) {
    let (good, bad) =
        (TestServer::with_tools("good", &["a"]), TestServer::with_tools("bad", &["b"]));
    let gateway = Gateway::builder().upstream("good", &good).upstream("bad", &bad);
    (good, bad.clone(), gateway.build().unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_delays_only_the_first_list() {
    let (_, bad, gateway) = gateway();
    bad.set(Health::Hangs);
    let start = Instant::now();
    let found = discover(&gateway).await;
    assert_eq!(start.elapsed(), Duration::from_millis(100));
    // The server that was not reached may have everything.
    assert!(found.capabilities.prompts.is_some() && found.capabilities.resources.is_some());
    assert_eq!(text(&call(&gateway, "good_a").await), "good a");
    assert_eq!(start.elapsed(), Duration::from_millis(100));
    assert_eq!(tools(&gateway).await, ["good_a"]);
    assert_eq!(start.elapsed(), 5 * SECOND);
    assert_eq!(tools(&gateway).await, ["good_a"]);
    assert_eq!(start.elapsed(), 5 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_at_first_appears_later() {
    let (_, bad, gateway) = gateway();
    bad.set(Health::Down);
    assert_eq!(tools(&gateway).await, ["good_a"]);
    bad.set(Health::Up);
    pass(SECOND).await;
    assert_eq!(tools(&gateway).await, ["good_a", "bad_b"]);
    assert_eq!(text(&call(&gateway, "bad_b").await), "bad b");
}

#[tokio::test(start_paused = true)]
async fn a_call_to_an_unavailable_server_says_so_without_its_address() {
    let (_, bad, gateway) = gateway();
    assert_eq!(tools(&gateway).await, ["good_a", "bad_b"]);
    bad.set(Health::Down);
    for _ in 0..3 {
        let result = call(&gateway, "bad_b").await;
        assert!(result.is_error);
        assert_eq!(text(&result), "The upstream server `bad` is unavailable. Try again in 1 s.");
        assert_eq!(text(&call(&gateway, "good_a").await), "good a");
    }
    // It is listed during the grace period, and tried again.
    pass(60 * SECOND).await;
    assert_eq!(tools(&gateway).await, ["good_a", "bad_b"]);
    bad.set(Health::Up);
    pass(60 * SECOND).await;
    assert_eq!(text(&call(&gateway, "bad_b").await), "bad b");
}

#[tokio::test(start_paused = true)]
async fn other_calls_to_an_unavailable_server_are_errors() {
    let router = Router::builder().add(Resource::new("mem:a", async || "a")).build().unwrap();
    let server = TestServer::new(router);
    let gateway = Gateway::builder().upstream("files", &server).build().unwrap();
    let read = || RequestBuilder::new(Method::ReadResource).target("mem:a");
    crate::support::result(&gateway, read()).await;
    server.set(Health::Down);
    let problem = error(&gateway, read()).await;
    assert_eq!(problem.kind, ErrorKind::InternalError);
    let data = problem.data.as_deref().unwrap();
    assert_eq!(
        (&data["reason"], &data["upstream"]),
        (&"upstream_unavailable".into(), &"files".into())
    );
    assert!(!format!("{problem} {data}").contains("secret"));
    assert!(std::error::Error::source(&problem).is_none());
}

#[tokio::test(start_paused = true)]
async fn tools_are_withdrawn_after_the_grace_period() {
    let bad = TestServer::with_tools("bad", &["b"]);
    let good = TestServer::with_tools("good", &["a"]);
    let upstream = UpstreamServer::new(&bad).grace(90 * SECOND);
    let gateway = Gateway::builder().upstream("bad", upstream).upstream("good", &good);
    let gateway = gateway.build().unwrap();
    assert_eq!(tools(&gateway).await, ["bad_b", "good_a"]);
    bad.set(Health::Down);
    assert!(call(&gateway, "bad_b").await.is_error);
    pass(80 * SECOND).await;
    assert_eq!(tools(&gateway).await, ["bad_b", "good_a"]);
    pass(15 * SECOND).await;
    assert_eq!(tools(&gateway).await, ["good_a"]);
    let result = call(&gateway, "bad_b").await;
    assert!(text(&result).starts_with("The upstream server `bad` is unavailable"), "{result:?}");
    bad.set(Health::Up);
    pass(60 * SECOND).await;
    assert_eq!(tools(&gateway).await, ["bad_b", "good_a"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_without_any_server_is_an_error() {
    let (good, bad, gateway) = gateway();
    good.set(Health::Down);
    bad.set(Health::Down);
    let problem = error(&gateway, RequestBuilder::new(Method::ListTools)).await;
    assert_eq!(problem.kind, ErrorKind::InternalError);
    assert_eq!(problem.data.as_deref().unwrap()["reason"], "upstream_unavailable");
    good.set(Health::Up);
    pass(SECOND).await;
    assert_eq!(tools(&gateway).await, ["good_a"]);
}

#[tokio::test(start_paused = true)]
async fn the_circuit_opens_after_five_failed_calls_and_closes_again() {
    let (_, bad, gateway) = gateway();
    tools(&gateway).await;
    bad.set(Health::ToolsCrash);
    for _ in 0..5 {
        assert!(call(&gateway, "bad_b").await.is_error);
    }
    // The tool works, but no call reaches it while the circuit is open.
    bad.set(Health::Up);
    let refused = call(&gateway, "bad_b").await;
    // 8 s, up to a quarter shorter.
    let expected =
        [6, 7, 8].map(|s| format!("The upstream server `bad` is unavailable. Try again in {s} s."));
    assert!(expected.iter().any(|it| it == text(&refused)), "{refused:?}");
    assert_eq!(text(&call(&gateway, "good_a").await), "good a");
    assert_eq!(tools(&gateway).await, ["good_a", "bad_b"]);
    pass(8 * SECOND).await;
    assert_eq!(text(&call(&gateway, "bad_b").await), "bad b");
}

#[tokio::test(start_paused = true)]
async fn attempts_to_connect_become_rare() {
    let (_, bad, gateway) = gateway();
    bad.set(Health::Down);
    tools(&gateway).await;
    pass(600 * SECOND).await;
    // 0.5 s, 1 s, 2 s … 60 s, each up to a quarter shorter.
    assert!((15..=22).contains(&bad.connections()), "{}", bad.connections());
}

#[tokio::test(start_paused = true)]
async fn a_call_without_activity_ends() {
    let router = Router::builder().add(Tool::new("wait", async || {
        std::future::pending::<()>().await;
        "never"
    }));
    let server = TestServer::new(router.build().unwrap());
    let upstream = UpstreamServer::new(&server).timeout(7 * SECOND);
    let gateway = Gateway::builder().upstream("one", upstream).build().unwrap();
    let start = Instant::now();
    assert!(call(&gateway, "wait").await.is_error);
    assert_eq!(start.elapsed(), 7 * SECOND);
}
