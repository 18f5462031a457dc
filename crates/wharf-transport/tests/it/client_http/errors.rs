//! Responses that are not replies, too long, or endless.

use serde_json::json;
use wharf_model::{ErrorKind, Method, Outcome, RequestBuilder};
use wharf_transport::client::connect_http;

use crate::client_http::{
    scripted_server::{ResponseWriter, SESSION, ScriptedServer, SeenRequest, legacy, modern},
    support::{assert_error, begin, call, connect, fails, options, refused, soon},
};

/// A modern or legacy server whose responses to calls come from `answer`.
async fn answering_server<F, R>(is_modern: bool, answer: F) -> ScriptedServer
where
    F: Fn(SeenRequest, ResponseWriter) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = ()> + Send,
{
    ScriptedServer::new(move |seen: SeenRequest, mut wire: ResponseWriter| {
        let answer = answer.clone();
        async move {
            let said = match is_modern {
                true => modern(&seen, &mut wire).await,
                false => legacy(&seen, &mut wire).await,
            };
            if !said {
                answer(seen, wire).await;
            }
        }
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn statuses_become_kinds() {
    use ErrorKind::*;
    let cases: [(u16, &str, &str, ErrorKind, &str); 14] = [
        (401, "WWW-Authenticate: Bearer scope=\"a\"\r\n", "", Unauthenticated, "401"),
        (403, "", "", Forbidden, "403"),
        (
            403,
            "",
            r#"{"code":-32602,"message":"no","data":{"reason":"insufficient_scope"}}"#,
            InsufficientScope,
            "no",
        ),
        (413, "", "", ContentTooLarge, "413"),
        (429, "Retry-After: 7\r\n", "", RateLimited, "429"),
        (503, "Retry-After: 7\r\n", "", TemporarilyUnavailable, "503"),
        (503, "Retry-After: Wed, 21 Oct 2015 07:28:00 GMT\r\n", "", TemporarilyUnavailable, "503"),
        (
            429,
            "",
            r#"{"code":1003,"message":"slow down","data":{"retryAfterMs":5}}"#,
            RateLimited,
            "slow down",
        ),
        (
            503,
            "",
            r#"{"code":1008,"message":"later","data":{"reason":"overloaded"}}"#,
            Overloaded,
            "later",
        ),
        (401, "", r#"{"code":-32000,"message":"who?"}"#, Unauthenticated, "who?"),
        (500, "", "", TransportError, "500"),
        (500, "", r#"{"code":-32603,"message":"broken"}"#, InternalError, "broken"),
        (418, "content-type: text/plain\r\n", "", TransportError, "418"),
        (400, "", r#"{"code":-32602,"message":"wrong"}"#, InvalidParams, "wrong"),
    ];
    for is_modern in [true, false] {
        for (status, heads, body, kind, words) in cases {
            let scripted = answering_server(
                is_modern,
                move |seen: SeenRequest, mut wire: ResponseWriter| async move {
                    let error = serde_json::from_str::<serde_json::Value>(body);
                    let body = error.map_or(String::new(), |error| {
                        json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": error}).to_string()
                    });
                    wire.answer(status, heads, &body).await;
                },
            )
            .await;
            let error = fails(&connect(&scripted.url()).await, "x").await;
            assert_error(&error, kind, &[words]);
            let data = error.data.unwrap();
            if heads.contains("Bearer") {
                assert_eq!(data["wwwAuthenticate"], "Bearer scope=\"a\"");
            }
            match (heads.contains(": 7"), heads.contains("2015"), body.contains("retryAfterMs")) {
                (true, ..) => assert_eq!(data["retryAfterMs"], 7000),
                (_, true, _) => assert_eq!(data["retryAfterMs"], 0),
                (.., true) => assert_eq!(data["retryAfterMs"], 5),
                _ => {}
            }
            assert_eq!(scripted.count("tools/call"), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_invalid_reply_is_quoted_in_the_error() {
    let cases = [
        (200, "content-type: text/html\r\n", "<h1>A\nlogin  page</h1>", "login"),
        (200, "", "no type", "no content type"),
        (200, "content-type: application/json\r\ncontent-encoding: gzip\r\n", "x", "gzip"),
        (204, "", "", "204"),
        (200, "content-type: application/json\r\n", "{\"jsonrpc\":", ""),
        (200, "content-type: application/json\r\n", "[]", ""),
        (200, "content-type: application/json\r\n", "", ""),
        (
            200,
            "content-type: application/json\r\n",
            r#"{"jsonrpc":"2.0","id":999,"result":{}}"#,
            "no reply",
        ),
    ];
    for is_modern in [true, false] {
        for (status, heads, body, words) in cases {
            let answer = move |_: SeenRequest, mut wire: ResponseWriter| async move {
                wire.answer(status, heads, body).await
            };
            let scripted = answering_server(is_modern, answer).await;
            let error = soon(fails(&connect(&scripted.url()).await, "x")).await;
            assert_eq!(error.kind, ErrorKind::TransportError, "{body:?}: {error:?}");
            assert!(error.message.contains(words), "{words:?} in {error:?}");
            assert!(!error.message.contains('\n'), "{error:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_without_an_id_belongs_to_its_request() {
    for is_modern in [true, false] {
        let scripted = answering_server(is_modern, |_: SeenRequest, mut wire: ResponseWriter| async move {
            let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32602, "message": "which?"}});
            wire.json(200, &error).await;
        })
        .await;
        let link = connect(&scripted.url()).await;
        let (one, other) = tokio::join!(fails(&link, "x"), fails(&link, "y"));
        assert_error(&one, ErrorKind::InvalidParams, &["which?"]);
        assert_error(&other, ErrorKind::InvalidParams, &["which?"]);
    }
}

/// Maximum number of bytes that a server can send before the client closes the connection.
const LIMIT: usize = 64 << 10;
const MOST: usize = 64 << 20;

async fn capped(begin: &'static str, again: &'static str, kind: ErrorKind) {
    for is_modern in [true, false] {
        let (told, mut sent) = tokio::sync::mpsc::channel(1);
        let scripted =
            answering_server(is_modern, move |_: SeenRequest, mut wire: ResponseWriter| {
                let told = told.clone();
                async move {
                    wire.raw(begin).await;
                    told.send(wire.flood(again, MOST).await).await.unwrap();
                }
            })
            .await;
        let mut options = options();
        options.limits.message = LIMIT;
        let link = connect_http(&scripted.url(), Vec::new(), options).await.unwrap();
        let (error, sent) = tokio::join!(fails(&link, "x"), sent.recv());
        assert_eq!(error.kind, kind, "{error:?}");
        assert!(sent.unwrap() < MOST, "it took {sent:?} bytes");
    }
}

const KIBIBYTE: &str = concat!(
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
);

#[tokio::test]
async fn an_endless_body() {
    let head = "HTTP/1.1 200 X\r\ncontent-type: application/json\r\n\r\n\"";
    capped(head, KIBIBYTE, ErrorKind::ContentTooLarge).await;
    let claimed =
        "HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: 99999999999\r\n\r\n\"";
    capped(claimed, KIBIBYTE, ErrorKind::ContentTooLarge).await;
}

#[tokio::test]
async fn an_endless_event() {
    let head = "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n\r\nid: 1\ndata: ";
    capped(head, KIBIBYTE, ErrorKind::ContentTooLarge).await;
    capped(head, "xxxxxxxxxxxxxxx\ndata: ", ErrorKind::ContentTooLarge).await;
}

#[tokio::test]
async fn an_endless_head() {
    capped("HTTP/1.1 200 X\r\nx: ", KIBIBYTE, ErrorKind::TransportError).await;
    capped("HTTP/1.1 200 X\r\n", "x: y\r\n", ErrorKind::TransportError).await;
}

#[tokio::test]
async fn an_endless_refusal() {
    for status in ["401", "500", "302"] {
        let scripted =
            ScriptedServer::new(move |_: SeenRequest, mut wire: ResponseWriter| async move {
                wire.raw(&format!("HTTP/1.1 {status} X\r\ncontent-type: text/html\r\n\r\n")).await;
                wire.flood(KIBIBYTE, MOST).await;
            })
            .await;
        let error = soon(refused(&scripted.url(), options())).await;
        assert!(error.message.contains(status), "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn deviations_from_the_specification_are_tolerated() {
    // Bodies for notifications, media types in capitals, status 201 for a reply, a session id in a
    // stateless revision.
    let scripted = ScriptedServer::new(|seen: SeenRequest, mut wire: ResponseWriter| async move {
        let json = "Content-Type: Application/JSON; charset=UTF-8\r\n";
        match seen.method() {
            "notifications/initialized" => wire.answer(200, json, r#"{"ok":true}"#).await,
            "tools/call" => wire.answer(201, json, &seen.text("fine").to_string()).await,
            "GET" => wire.answer(200, "content-type: text/html\r\n", "<h1>Hello</h1>").await,
            "DELETE" => wire.status(405).await,
            _ => _ = legacy(&seen, &mut wire).await,
        }
    })
    .await;
    let link = connect(&scripted.url()).await;
    assert_eq!(call(&link, "x").await.unwrap(), "fine");
    scripted.wait_for("GET", 1).await;
    soon(link.close()).await;

    let scripted = ScriptedServer::new(|seen: SeenRequest, mut wire: ResponseWriter| async move {
        let heads = format!("content-type: application/json\r\nmcp-session-id: {SESSION}\r\n");
        let reply = match seen.method() {
            "server/discover" => {
                seen.reply(json!({"supportedVersions": ["2026-07-28"], "capabilities": {}}))
            }
            _ => seen.text("fine"),
        };
        wire.answer(200, &heads, &reply.to_string()).await;
    })
    .await;
    let link = connect(&scripted.url()).await;
    assert_eq!(call(&link, "x").await.unwrap(), "fine");
    soon(link.close()).await;
    assert_eq!(scripted.methods(), ["server/discover", "tools/call"]);
    assert!(scripted.log().iter().all(|seen| seen.head("mcp-session-id").is_none()));
}

#[tokio::test(start_paused = true)]
async fn results_are_read_by_the_method_that_was_asked() {
    let scripted =
        answering_server(true, |seen: SeenRequest, mut wire: ResponseWriter| async move {
            wire.json(200, &seen.reply(json!({"resultType": "magic", "tools": []}))).await;
        })
        .await;
    let link = connect(&scripted.url()).await;
    let outcome = begin(&link, RequestBuilder::new(Method::ListTools).build()).done().await;
    let Outcome::Failed(error) = outcome else { panic!("{outcome:?}") };
    assert_error(&error, ErrorKind::ValidationFailed, &["magic"]);
}
