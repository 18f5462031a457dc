//! Tests of one authorization in a browser.

use std::sync::Mutex;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::*;

fn authorization_request(url: &str) -> AuthorizationRequest {
    let (state, issuer) = ("mine".to_owned(), "https://as.example".to_owned());
    let server = "https://mcp.example/mcp".to_owned();
    AuthorizationRequest { url: url.parse().unwrap(), state, issuer, server }
}

/// A user agent that opens nothing, with its notices.
fn by_hand() -> (Browser, Arc<Mutex<Vec<String>>>) {
    let notices: Arc<Mutex<Vec<String>>> = Arc::default();
    let keep = notices.clone();
    let browser = Browser::new(move |_, notice| {
        keep.lock().unwrap().push(match notice {
            Notice::Opened { url } => format!("opened {url}"),
            Notice::OpenIt { url } => format!("open {url}"),
            Notice::DidNotOpen => "did not open".to_owned(),
            Notice::NotThis(why) => why.to_owned(),
        });
    });
    (browser.by_hand(), notices)
}

async fn send_redirect(redirect_uri: &str, query: &str) {
    let url = Url::parse(redirect_uri).unwrap();
    let port = url.port().unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let request = format!("GET {}?{query} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n", url.path());
    stream.write_all(request.as_bytes()).await.unwrap();
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

#[tokio::test]
async fn the_redirect_returns_the_response() {
    let (browser, notices) = by_hand();
    let session = browser.prepare(None).await.unwrap();
    let redirect_uri = session.redirect_uri().to_owned();
    let visit =
        tokio::spawn(session.visit(authorization_request("https://as.example/authorize?x=$(id)")));
    send_redirect(&redirect_uri, "code=stolen&state=other").await;
    send_redirect(&redirect_uri, "code=c0de&state=mine&iss=https%3A%2F%2Fas.example").await;
    let callback = visit.await.unwrap().unwrap();
    assert_eq!((callback.get("code"), callback.get("state")), (Some("c0de"), Some("mine")));
    assert_eq!(callback.get("iss"), Some("https://as.example"));
    assert_eq!(*notices.lock().unwrap(), ["open https://as.example/authorize?x=%24%28id%29"]);
}

#[tokio::test]
async fn the_last_port_is_reused() {
    let (browser, _) = by_hand();
    let first = browser.prepare(None).await.unwrap().redirect_uri().to_owned();
    let again = browser.prepare(Some(&first)).await.unwrap();
    assert_eq!(again.redirect_uri(), first);
    // A port in use, or a redirect URI of another path, is not reused.
    assert_ne!(browser.prepare(Some(&first)).await.unwrap().redirect_uri(), first);
    let foreign = first.replace("/callback", "/other");
    drop(again);
    assert_ne!(browser.prepare(Some(&foreign)).await.unwrap().redirect_uri(), foreign);
}

#[tokio::test]
async fn a_redirected_url_can_be_pasted() {
    let (browser, notices) = by_hand();
    let pasted = Mutex::new(vec![
        "http://127.0.0.1:1/callback?code=c0de&state=mine#x",
        "http://127.0.0.1:1/callback?code=c0de&state=other",
        "hello",
    ]);
    let browser = browser.paste(move || {
        let next = pasted.lock().unwrap().pop().map(str::to_owned);
        async move { next }
    });
    let session = browser.prepare(None).await.unwrap();
    let callback =
        session.visit(authorization_request("https://as.example/authorize")).await.unwrap();
    assert_eq!(callback.get("code"), Some("c0de"));
    let notices = notices.lock().unwrap();
    assert!(
        notices[1..].iter().all(|it| it.contains("another login")) && notices.len() == 3,
        "{notices:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_login_times_out() {
    let (browser, _) = by_hand();
    let session = browser.prepare(None).await.unwrap();
    let visit = session.visit(authorization_request("https://as.example/authorize"));
    let error = visit.await.unwrap_err();
    assert!(error.message.contains("within 5 minutes: try again"), "{}", error.message);
}

#[tokio::test]
async fn only_http_urls_are_opened() {
    for url in ["file:///etc/passwd", "javascript:alert(1)", "data:text/html,x"] {
        let (browser, notices) = by_hand();
        let session = browser.prepare(None).await.unwrap();
        let error = session.visit(authorization_request(url)).await.unwrap_err();
        assert!(error.message.contains("only http and https"), "{}", error.message);
        assert!(notices.lock().unwrap().is_empty());
    }
}
