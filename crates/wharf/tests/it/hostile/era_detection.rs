//! Era detection against ambiguous servers.

use std::{sync::Mutex, time::Duration};

use serde_json::{Value, json};

use crate::hostile::scripted_server::{
    Action, ReceivedRequest, ScriptedServer, builder, default_http_reply, default_line_reply,
    http_json, in_time, line,
};

/// Replies of a legacy server to `initialize` and to `tools/call`.
fn legacy(asked: &ReceivedRequest) -> Option<Value> {
    match asked.method() {
        "initialize" => Some(asked.reply(json!({
            "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "old", "version": "1"},
        }))),
        "tools/call" => Some(asked.reply(json!({"content": [{"type": "text", "text": "done"}]}))),
        _ => None,
    }
}

fn error(asked: &ReceivedRequest, code: i64) -> Value {
    json!({"jsonrpc": "2.0", "id": asked.message["id"], "error": {"code": code, "message": "no"}})
}

type RequestScript = fn(&ReceivedRequest) -> Action;

/// Replies of legacy line servers to `server/discover`.
fn discoveries() -> Vec<(&'static str, RequestScript)> {
    vec![
        ("method not found", |asked| Action::Say(line(&error(asked, -32601)))),
        ("invalid params", |asked| Action::Say(line(&error(asked, -32602)))),
        ("not initialized", |asked| Action::Say(line(&error(asked, -32002)))),
        ("any number", |asked| Action::Say(line(&error(asked, 42)))),
        ("no id", |_| {
            Action::Say(line(&json!({"jsonrpc": "2.0", "id": null,
            "error": {"code": -32600, "message": "no"}})))
        }),
        ("garbage", |_| Action::Say(b"Welcome to my server!\n".to_vec())),
        ("a result of something else", |asked| {
            Action::Say(line(&asked.reply(json!({"tools": []}))))
        }),
        ("an empty result", |asked| Action::Say(line(&asked.reply(json!({}))))),
        ("silence", |_| Action::Nothing),
        ("the end", |_| Action::Close),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_legacy_server_of_lines_is_found_out() {
    for (how, discover) in discoveries() {
        let server = ScriptedServer::lines(move |asked| match asked.method() {
            "server/discover" => discover(asked),
            _ => legacy(asked).map_or(Action::Nothing, |reply| Action::Say(line(&reply))),
        });
        let server = server.await;
        let client = in_time(builder().connect(server.lines_url())).await;
        let client = client.unwrap_or_else(|error| panic!("{how}: {error}"));
        assert_eq!(client.about().revision, "2025-06-18", "{how}");
        assert!(!in_time(client.call("t", ())).await.unwrap().is_error, "{how}");
        assert!(server.methods().contains(&"notifications/initialized".to_owned()), "{how}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_legacy_server_of_http_is_found_out() {
    for status in [200, 202, 400, 404, 405, 406, 415, 422] {
        for body in [
            "",
            "nonsense",
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}"#,
        ] {
            let server = ScriptedServer::http(move |asked| {
                match (asked.method(), &*asked.verb) {
                ("server/discover", _) => Action::Say(
                    format!(
                        "HTTP/1.1 {status} No\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                        body.len()
                    )
                    .into_bytes(),
                ),
                (_, "GET") => Action::Say(b"HTTP/1.1 405 No\r\ncontent-length: 0\r\n\r\n".to_vec()),
                _ => match legacy(asked) {
                    Some(reply) => Action::Say(http_json(200, &reply)),
                    None => default_http_reply(asked),
                },
            }
            });
            let server = server.await;
            let client = in_time(builder().connect(server.url())).await;
            let client = client.unwrap_or_else(|error| panic!("{status} {body:?}: {error}"));
            assert_eq!(client.about().revision, "2025-06-18", "{status} {body:?}");
            assert!(!in_time(client.call("t", ())).await.unwrap().is_error);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undecided_probe_is_an_error_without_a_retry() {
    for (status, kind) in [
        (401, "unauthenticated"),
        (403, "forbidden"),
        (429, "rate_limited"),
        (500, "transport_error"),
        (502, "transport_error"),
        (503, "temporarily_unavailable"),
    ] {
        let server = ScriptedServer::http(move |_| {
            Action::Say(format!("HTTP/1.1 {status} No\r\ncontent-length: 0\r\n\r\n").into_bytes())
        });
        let server = server.await;
        let error = in_time(builder().connect(server.url())).await.unwrap_err();
        let known = error.kind().name() == kind || (status >= 500 && error.kind().is_retryable());
        assert!(known, "{status}: {error:?}");
        assert_eq!(server.methods(), ["server/discover"], "{status}");
    }
}

/// A server that starts slowly is not classified as legacy. After its start it answers all requests that it received,
/// in order.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_modern_server_is_not_classified_as_legacy() {
    let first = Mutex::new(None);
    let server = ScriptedServer::lines(move |asked| match asked.method() {
        "server/discover" => {
            *first.lock().unwrap() = Some(asked.clone());
            Action::Nothing
        }
        "initialize" => {
            let discover = first.lock().unwrap().take().expect("it comes first");
            let mut both = line(&discover.default_reply().unwrap());
            both.extend(line(&error(asked, -32601)));
            Action::Say(both)
        }
        _ => default_line_reply(asked),
    });
    let server = server.await;
    let client = in_time(builder().connect(server.lines_url())).await.unwrap();
    assert_eq!(client.about().revision, "2026-07-28");
    assert!(!in_time(client.call("t", ())).await.unwrap().is_error);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_server_times_out() {
    let server = ScriptedServer::lines(|_| Action::Nothing).await;
    let short = builder().handshake(Duration::from_secs(2));
    let error = in_time(short.connect(server.lines_url())).await.unwrap_err();
    assert!(error.kind().is_retryable() || error.kind().is_request_timeout(), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_is_named() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    for url in
        [format!("http://{address}/mcp"), format!("tcp://{address}"), format!("ws://{address}/mcp")]
    {
        let error = in_time(builder().connect(url.clone())).await.unwrap_err();
        assert!(error.kind().is_transport_error(), "{error:?}");
        assert!(error.message().contains(&address.to_string()), "{url}: {error}");
    }
}
