//! Messages of unbounded length.

use wharf::client::ClientLimits;

use crate::hostile::memory_growth::{MemoryGrowth, ran_alone};
use crate::hostile::scripted_server::{
    Action, ScriptedServer, builder, default_http_reply, default_line_reply, in_time,
};

const CHUNK: usize = 64 << 10;

fn limits() -> ClientLimits {
    ClientLimits::default().message(1 << 20)
}

async fn is_refused(server: ScriptedServer, url: String) {
    let growth = MemoryGrowth::start();
    let client = in_time(builder().limits(limits()).connect(url)).await.unwrap();
    let error = in_time(client.call("t", ())).await.unwrap_err();
    assert!(error.kind().is_content_too_large(), "{error:?}");
    assert!(error.message().contains("1048576") || error.message().contains("1 MiB"), "{error}");
    growth.assert_below(64 << 20);
    drop(server);
}

/// Calls an HTTP server that responds with `head` and then `piece` without end.
async fn is_refused_over_http(head: String, piece: String) {
    let server = ScriptedServer::http(move |asked| match asked.method() {
        "tools/call" => Action::Repeat(head.clone().into_bytes(), piece.clone().into_bytes()),
        _ => default_http_reply(asked),
    });
    let server = server.await;
    let url = server.url();
    is_refused(server, url).await;
}

fn head(media: &str, length: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {media}\r\n{length}\r\n\r\n")
}

fn chunk(piece: &str) -> String {
    format!("{:x}\r\n{piece}\r\n", piece.len())
}

const CHUNKED: &str = "transfer-encoding: chunked";

/// CVE-2026-53937, CVE-2026-63119.
#[tokio::test(flavor = "multi_thread")]
async fn a_line_without_end() {
    if ran_alone() {
        return;
    }
    let server = ScriptedServer::lines(|asked| match asked.method() {
        "tools/call" => Action::Repeat(b"{\"jsonrpc\":\"".to_vec(), vec![b'x'; CHUNK]),
        _ => default_line_reply(asked),
    });
    let server = server.await;
    let url = server.lines_url();
    is_refused(server, url).await;
}

/// RUSTSEC-2026-0462.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_without_end() {
    if ran_alone() {
        return;
    }
    let head = head("application/json", CHUNKED);
    is_refused_over_http(head, chunk(&"x".repeat(CHUNK))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_whose_length_is_a_threat() {
    if ran_alone() {
        return;
    }
    let head = head("application/json", &format!("content-length: {}", u64::MAX / 4));
    is_refused_over_http(head, "x".repeat(CHUNK)).await;
}

/// CVE-2026-53965: events without a delimiter.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_without_end() {
    if ran_alone() {
        return;
    }
    for piece in [format!("data: {}\n", "x".repeat(CHUNK - 7)), "x".repeat(CHUNK)] {
        is_refused_over_http(head("text/event-stream", CHUNKED), chunk(&piece)).await;
    }
}

/// Progress extends the timeout of a call, but not without limit.
#[tokio::test(flavor = "multi_thread")]
async fn progress_without_end() {
    if ran_alone() {
        return;
    }
    let server = ScriptedServer::lines(|asked| match asked.method() {
        "tools/call" => {
            let token = &asked.message["params"]["_meta"]["progressToken"];
            let told = serde_json::json!({"jsonrpc": "2.0", "method": "notifications/progress",
                "params": {"progressToken": token, "progress": 1}});
            Action::Repeat(Vec::new(), crate::hostile::scripted_server::line(&told))
        }
        _ => default_line_reply(asked),
    });
    let server = server.await;
    let client = in_time(builder().connect(server.lines_url())).await.unwrap();
    let growth = MemoryGrowth::start();
    let call = client.call("t", ()).on_progress(|_| ()).total(std::time::Duration::from_secs(2));
    let error = in_time(call).await.unwrap_err();
    assert!(error.kind().is_request_timeout(), "{error:?}");
    growth.assert_below(1 << 30);
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_without_end() {
    let server = ScriptedServer::http(|asked| match asked.method() {
        "tools/call" => {
            let header = format!("x-more: {}\r\n", "x".repeat(1000));
            Action::Repeat(b"HTTP/1.1 200 OK\r\n".to_vec(), header.into_bytes())
        }
        _ => default_http_reply(asked),
    });
    let server = server.await;
    let client = in_time(builder().connect(server.url())).await.unwrap();
    assert!(in_time(client.call("t", ())).await.is_err());
}
