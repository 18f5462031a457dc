//! Messages that two parsers could read differently are rejected.

use http::Request;
use serde_json::{Value, json};

use crate::advisories::{
    harness::Harness,
    http_client::{self, HttpClient, LEGACY, MODERN},
    raw_http,
    web::{AnyBody, Events, whole},
};

/// POST of a message with a changed body and unchanged headers.
fn rewritten(caller: &HttpClient, message: &Value, from: &str, to: &str) -> Request<AnyBody> {
    let mut request = caller.post(message);
    let text = message.to_string();
    assert!(text.contains(from), "{from} in {text}");
    *request.body_mut() = whole(text.replacen(from, to, 1));
    request
}

/// CVE-2026-27896 and GHSA-q382-vc8q-7jhj: keys were compared case-insensitively, and the last one took precedence.
#[tokio::test]
async fn a_key_is_not_read_twice_or_by_another_name() {
    let harness = Harness::start().await;
    for caller in HttpClient::both(&harness).await {
        let call = caller.tool("echo", json!({"text": "x"}));
        let params = call["params"].to_string();
        for (from, to) in [
            (r#""id":1"#, r#""id":1,"id":1"#),
            (r#""id":1"#, r#""id":1,"\u0069d":2"#),
            (r#""jsonrpc":"2.0""#, r#""jsonrpc":"2.0","jsonrpc":"2.0""#),
            (r#""method":"tools/call""#, r#""method":"tools/call","method":"tools/call""#),
            (r#""method":"tools/call""#, r#""method":"ping","m\u0065thod":"tools/call""#),
            (&*format!(r#""params":{params}"#), &*format!(r#""params":{params},"params":{{}}"#)),
            // A name in another case, or with a suffix, is another name.
            (r#""method""#, r#""Method""#),
            (r#""method""#, r#""method\u0000""#),
            (r#""jsonrpc""#, r#""JSONRPC""#),
        ] {
            let response = caller.request(rewritten(&caller, &call, from, to)).await;
            assert_eq!(response.status(), 400, "{to}");
            assert_eq!(http_client::reply(response).await["error"]["code"], -32600, "{to}");
        }
        for more in [
            r#""Method":"ping""#,
            r#""method\u0000":"ping""#,
            r#""Params":{"name":"crash"}"#,
            r#""ID":2"#,
        ] {
            let response =
                caller.request(rewritten(&caller, &call, "{", &format!("{{{more},"))).await;
            assert_eq!(response.status(), 200, "{more}");
            let reply = http_client::reply(response).await;
            assert_eq!((&reply["id"], http_client::text(&reply)), (&json!(1), "x"), "{more}");
        }
    }
}

/// rmcp 3.5 and 3.6: ids were rounded.
#[tokio::test]
async fn an_id_is_not_changed() {
    let harness = Harness::start().await;
    for caller in HttpClient::both(&harness).await {
        let call = caller.tool("echo", json!({"text": "x"}));
        for id in ["1.5", "1e-3", "null", "true", "[]", "{}"] {
            let request = rewritten(&caller, &call, r#""id":1"#, &format!(r#""id":{id}"#));
            let response = caller.request(request).await;
            assert_eq!(response.status(), 400, "{id}");
            assert_eq!(http_client::reply(response).await["error"]["code"], -32600, "{id}");
        }
        for id in
            ["0", "-1", "9007199254740993", "9223372036854775807", r#""""#, r#""1""#, r#""\u2028""#]
        {
            let request = rewritten(&caller, &call, r#""id":1"#, &format!(r#""id":{id}"#));
            let reply = http_client::reply(caller.request(request).await).await;
            assert_eq!(reply["id"], serde_json::from_str::<Value>(id).unwrap(), "{id}");
        }
    }
}

/// rmcp 3.5: a gateway and the server could read different values of a repeated header.
#[tokio::test]
async fn conflicting_headers_are_rejected() {
    let harness = Harness::start().await;
    let caller = HttpClient::modern(&harness);
    let body = caller.tool("route", json!({"region": "eu"})).to_string();
    let good = [
        raw_http::VERSION,
        ("mcp-method", "tools/call"),
        ("mcp-name", "route"),
        ("mcp-param-region", "eu"),
    ];
    assert_eq!(raw_http::ask(&harness, &raw_http::post(&harness, &good, &body)).await.status, 200);
    for (name, value) in good {
        for again in [value, "other", ""] {
            // In either order, and in any case of the header name.
            let last: Vec<_> = good.into_iter().chain([(name, again)]).collect();
            let upper = name.to_ascii_uppercase();
            let first: Vec<_> = [(&*upper, again)].into_iter().chain(good).collect();
            for headers in [last, first] {
                let answer =
                    raw_http::ask(&harness, &raw_http::post(&harness, &headers, &body)).await;
                assert_eq!((answer.status, answer.code()), (400, -32020), "{headers:?}");
            }
        }
        let missing: Vec<_> = good.into_iter().filter(|it| it.0 != name).collect();
        let answer = raw_http::ask(&harness, &raw_http::post(&harness, &missing, &body)).await;
        assert_eq!(answer.status, 400, "without {name}");
        let different = good.map(|it| if it.0 == name { (name, "other") } else { it });
        let answer = raw_http::ask(&harness, &raw_http::post(&harness, &different, &body)).await;
        assert_eq!(answer.status, 400, "another {name}");
    }

    let legacy = HttpClient::legacy(&harness).await;
    let id = legacy.session.as_ref().unwrap().to_str().unwrap();
    let body = legacy.tool("echo", json!({"text": "x"})).to_string();
    for twice in [[id, id], [id, "other"], ["other", id]] {
        let headers = twice.map(|it| ("mcp-session-id", it));
        assert_eq!(
            raw_http::ask(&harness, &raw_http::post(&harness, &headers, &body)).await.status,
            400
        );
    }
}

/// The end of a request must be unambiguous (request smuggling).
#[tokio::test]
async fn a_request_does_not_end_in_two_places() {
    let harness = Harness::start().await;
    let smuggled = raw_http::modern_call(&harness).replace("echo", "none");
    for lengths in [
        "content-length: 5\r\ntransfer-encoding: chunked",
        "content-length: 5\r\ncontent-length: 6",
        "content-length: 5, 6",
        "content-length: +5",
        "transfer-encoding: chunked, identity",
        "transfer-encoding: xchunked",
        "transfer-encoding : chunked",
    ] {
        use tokio::io::AsyncWriteExt;
        let head = raw_http::post(&harness, &[raw_http::VERSION], "")
            .replace("content-length: 0", lengths);
        let mut stream = harness.connect().await;
        stream.write_all(format!("{head}0\r\n\r\n{smuggled}").as_bytes()).await.unwrap();
        let answer = raw_http::answer(&mut stream).await;
        assert!(answer.is_none_or(|answer| answer.status == 400), "{lengths}");
        // The bytes that follow are not processed as a request.
        assert!(raw_http::answer(&mut stream).await.is_none(), "{lengths}");
    }
    HttpClient::modern(&harness).works().await;
}

/// rmcp 3.6: a message with both a result and an error was treated as whichever came first.
#[tokio::test]
async fn an_answer_is_not_both_a_result_and_an_error() {
    let harness = Harness::start().await;
    let caller = HttpClient::legacy(&harness).await;
    let mut events = Events::of(caller.send(&caller.tool("confirm", json!({}))).await);
    let ask = events.message().await.unwrap();
    assert_eq!(ask["method"], "elicitation/create");
    let (id, error) = (&ask["id"], json!({"code": 1, "message": "no"}));
    let accept = json!({"action": "accept", "content": {"confirmed": true}});
    for bad in [
        json!({"jsonrpc": "2.0", "id": id, "result": accept, "error": error}),
        json!({"jsonrpc": "2.0", "id": id, "error": error, "result": accept}),
        json!({"jsonrpc": "2.0", "id": id, "method": "ping", "result": accept}),
        json!({"jsonrpc": "2.0", "id": "other", "result": accept}),
        json!({"jsonrpc": "2.0", "id": null, "result": accept}),
    ] {
        let status = caller.send(&bad).await.status();
        assert!(status == 400 || status == 202, "{status}: {bad}");
    }
    // None of these messages was accepted as the response.
    let decline = json!({"action": "accept", "content": {"confirmed": false}});
    let good = json!({"jsonrpc": "2.0", "id": id, "result": decline});
    assert_eq!(caller.send(&good).await.status(), 202);
    assert_eq!(http_client::text(&events.message().await.unwrap()), "false");
}

/// CVE-2026-25536, in the other direction: responses of one client to server requests of another.
#[tokio::test]
async fn an_answer_does_not_answer_the_question_of_another_session() {
    let harness = Harness::start().await;
    let victim = HttpClient::legacy(&harness).await;
    let mut events = Events::of(victim.send(&victim.tool("confirm", json!({}))).await);
    let ask = events.message().await.unwrap();
    let answer = |confirmed: bool| {
        let result = json!({"action": "accept", "content": {"confirmed": confirmed}});
        json!({"jsonrpc": "2.0", "id": ask["id"], "result": result})
    };
    let thief = HttpClient::legacy(&harness).await;
    for _ in 0..3 {
        thief.send(&answer(true)).await;
    }
    // A response without a session, or as a modern message, is not accepted either.
    let nobody = HttpClient { session: None, ..thief.clone() };
    assert_eq!(nobody.send(&answer(true)).await.status(), 400);
    let modern = HttpClient { revision: MODERN, ..thief };
    assert_eq!(modern.send(&answer(true)).await.status(), 400);
    victim.send(&answer(false)).await;
    assert_eq!(http_client::text(&events.message().await.unwrap()), "false");
}

/// Newlines of every kind stay inside the data of an event.
#[tokio::test]
async fn a_newline_in_data_does_not_begin_an_event() {
    let harness = Harness::start().await;
    for caller in HttpClient::both(&harness).await {
        for evil in [
            "a\nb",
            "a\r\nb",
            "a\rb",
            "\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n",
            "\r\rid: 99-99\r\rretry: 1\r\r",
            "event: endpoint\ndata: http://evil.example\n\n",
            "\u{2028}\u{2029}\u{85}\u{b}\u{c}\u{0}\u{feff}",
            "\u{1b}[2J\u{202e}",
        ] {
            let messages = caller.messages("repeat", json!({"text": evil})).await;
            let [progress, log, reply] = &*messages else { panic!("{messages:?}") };
            assert_eq!(progress["params"]["message"], evil);
            assert_eq!(log["params"]["data"], json!([evil]));
            assert_eq!(log["params"]["logger"], evil);
            assert_eq!(http_client::text(reply), evil);
            // Names in errors, in the body or in headers, cannot inject lines either.
            let response = caller.send(&caller.tool(evil, json!({}))).await;
            assert!(response.headers().values().all(|it| !it.as_bytes().contains(&b'\n')));
            let reply = http_client::reply(response).await;
            assert_eq!(reply["error"]["code"], -32602, "{reply}");
        }
    }
    // In the stream itself: every line is a field of an event.
    let legacy = HttpClient { revision: LEGACY, ..HttpClient::modern(&harness) }.opened().await;
    let response = legacy.send(&legacy.tool("repeat", json!({"text": "\n\nid: 1\r\n"}))).await;
    let stream = http_client::body(response).await;
    for line in String::from_utf8(stream.to_vec()).unwrap().split(['\n', '\r']) {
        let known =
            ["id: ", "data: ", "data:", "retry: ", ":"].iter().any(|it| line.starts_with(it));
        assert!(known || line.is_empty(), "{line:?}");
    }
}
