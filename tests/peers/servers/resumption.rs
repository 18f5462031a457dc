//! What is checked of the legacy servers over HTTP, whose streams outlive their connections.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use wharf::args;

use crate::proxy;
use crate::subject::{Server, Subject, list_checks, text};

list_checks! { ALL: resumes_a_call_that_was_cut }

async fn resumes_a_call_that_was_cut(subject: &Subject) {
    let url = subject.url();
    let server = url.trim_start_matches("http://").trim_end_matches("/mcp");
    let server: SocketAddr = server.parse().unwrap();
    let (proxy, has_cut) = proxy::cutting_at("\"progress\":3", server).await.unwrap();
    let through = format!("http://{proxy}/mcp");
    let client = subject.connect_to(through, Some(subject.era.newest())).await.unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = heard.clone();
    let (tool, arguments) = match subject.server {
        Server::Everything => {
            ("trigger-long-running-operation", args! { duration: 0.5, steps: 30 })
        }
        _ => ("countdown", args! { steps: 30 }),
    };
    let call = client.call(tool, arguments);
    let result = call.on_progress(move |it| hears.lock().unwrap().push(it.progress)).await.unwrap();
    assert!(!result.is_error && !text(&result).is_empty(), "{result:?}");
    assert!(*has_cut.borrow(), "nothing was cut");
    let heard = heard.lock().unwrap().clone();
    assert_eq!(heard[..3], [1.0, 2.0, 3.0], "what was cut comes again");
    assert!(heard.is_sorted_by(|a, b| a < b), "nothing comes twice: {heard:?}");
    // PyPI's `mcp` loses what a call says between the replay and the going on.
    let may_lose = matches!(subject.server, Server::Python | Server::FastMcp);
    assert!(may_lose || heard.len() == 30, "{heard:?}");
    client.close().await;
}
