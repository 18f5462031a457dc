//! Redirects to other origins.

use std::sync::{Arc, Mutex};

use crate::hostile::scripted_server::{
    Action, ScriptedServer, builder, default_http_reply, in_time,
};

fn to(url: &str, status: u16) -> Action {
    Action::Say(
        format!("HTTP/1.1 {status} Elsewhere\r\nlocation: {url}\r\ncontent-length: 0\r\n\r\n")
            .into_bytes(),
    )
}

/// CVE-2026-64684: headers that the user had set were sent to another origin.
#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_to_another_origin_sends_no_headers() {
    let thief = ScriptedServer::http(default_http_reply).await;
    for status in [301, 302, 303, 307, 308] {
        let url = thief.url();
        let server = ScriptedServer::http(move |_| to(&url, status)).await;
        let secret = builder().header("authorization", "Bearer secret").header("x-key", "secret");
        let error = in_time(secret.connect(server.url())).await.unwrap_err();
        assert!(error.message().contains("redirect"), "{status}: {error}");
    }
    assert!(thief.asked.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_redirect_to_another_origin_sends_no_headers() {
    let thief = ScriptedServer::http(default_http_reply).await;
    let url = thief.url();
    let server = ScriptedServer::http(move |asked| match asked.method() {
        "tools/call" => to(&url, 307),
        _ => default_http_reply(asked),
    });
    let server = server.await;
    let secret = builder().header("authorization", "Bearer secret");
    let client = in_time(secret.connect(server.url())).await.unwrap();
    let error = in_time(client.call("t", ())).await.unwrap_err();
    assert!(error.message().contains("redirect"), "{error}");
    assert!(thief.asked.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_within_the_origin_is_followed() {
    let own = Arc::new(Mutex::new(String::new()));
    let address = own.clone();
    let server = ScriptedServer::http(move |asked| match asked.path.as_str() {
        "/mcp" => to(&format!("http://{}/moved", address.lock().unwrap()), 307),
        _ => default_http_reply(asked),
    });
    let server = server.await;
    own.lock().unwrap().clone_from(&server.address);
    let secret = builder().header("authorization", "Bearer secret");
    let client = in_time(secret.connect(server.url())).await.unwrap();
    in_time(client.call("t", ())).await.unwrap();
    let asked = server.asked.lock().unwrap();
    assert!(asked.iter().all(|it| it.header("authorization") == Some("Bearer secret")));
}

#[tokio::test(flavor = "multi_thread")]
async fn redirect_loops_are_detected() {
    let server = ScriptedServer::http(|_| to("/mcp", 307)).await;
    let error = in_time(builder().connect(server.url())).await.unwrap_err();
    assert!(error.message().contains("redirect"), "{error}");
    assert!(server.asked.lock().unwrap().len() < 30);
}
