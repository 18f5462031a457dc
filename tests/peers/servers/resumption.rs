//! Checks of legacy HTTP servers whose streams can be resumed.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use wharf::args;

use crate::proxy;
use crate::server_under_test::{Server, TestTarget, list_checks, text};

list_checks! { ALL: resumes_a_call_that_was_cut }

/// Duration of the call, long enough for the client to reconnect.
const STEPS: u32 = 150;

async fn resumes_a_call_that_was_cut(target: &TestTarget) {
    let url = target.url();
    let server = url.trim_start_matches("http://").trim_end_matches("/mcp");
    let server: SocketAddr = server.parse().unwrap();
    let (proxy, has_cut) = proxy::cutting_at("\"progress\":3", server).await.unwrap();
    let through = format!("http://{proxy}/mcp");
    let client = target.connect_to(through, Some(target.era.newest())).await.unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = heard.clone();
    let (tool, arguments) = match target.server {
        // This server replays the events up to the reconnect, and sends nothing after them. It sends no retry delay, so
        // the client waits a second: the call has to end before.
        Server::Everything => {
            ("trigger-long-running-operation", args! { duration: 0.2, steps: 20 })
        }
        _ => ("countdown", args! { steps: STEPS }),
    };
    let call = client.call(tool, arguments);
    let result = call.on_progress(move |it| hears.lock().unwrap().push(it.progress)).await.unwrap();
    assert!(!result.is_error && !text(&result).is_empty(), "{result:?}");
    assert!(*has_cut.borrow(), "nothing was cut");
    let heard = heard.lock().unwrap().clone();
    let steps = if target.server == Server::Everything { 20 } else { STEPS };
    assert_eq!(heard.last(), Some(&f64::from(steps)));
    let (may_lose, may_repeat) = match target.server {
        // PyPI's `mcp` loses the events between the end of the replay and the continuation of the stream.
        Server::Python | Server::FastMcp => (true, false),
        // rmcp keeps 16 events, and begins its replay with the event that the client names as its last.
        Server::Rmcp => (true, true),
        Server::TypeScript2 | Server::TypeScript2Skills | Server::Everything => (false, false),
    };
    assert!(heard.is_sorted_by(|a, b| a < b || may_repeat && a == b), "{heard:?}");
    assert!(may_lose || heard.len() == steps as usize, "{heard:?}");
    client.close().await;
}
