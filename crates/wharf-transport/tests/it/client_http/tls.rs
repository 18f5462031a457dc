//! TLS. Root certificates come from the system, so a child process gets its own through the
//! environment.

use std::{env, fs, process::Command};

use wharf_model::ErrorKind;
use wharf_transport::{
    client::connect_http,
    server::http::{Http, Tls},
};

use crate::client_http::{
    support::{
        assert_error, begin, call, connect_pinned, options, refused, soon, text, tool, traced,
    },
    test_server::HttpServer,
};

const CERTIFICATE: &str = "WHARF_TEST_CERTIFICATE";

fn made() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

async fn encrypted(certificate: &str, key: &str) -> HttpServer {
    let tls = Tls::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
    HttpServer::serve(Http::new().tls(tls)).await
}

#[tokio::test]
async fn unknown_certificates_are_rejected() {
    let (certificate, key) = made();
    let server = encrypted(&certificate, &key).await;
    let error = refused(&format!("https://localhost:{}/mcp", server.port), options()).await;
    assert_error(&error, ErrorKind::TransportError, &["https://localhost", "trusted"]);
    // TLS is neither started nor dropped implicitly.
    let error = refused(&format!("http://localhost:{}/mcp", server.port), options()).await;
    assert!(error.message.contains(&format!("http://localhost:{}", server.port)), "{error:?}");
    let plain = HttpServer::serve(Http::new()).await;
    let error = refused(&format!("https://localhost:{}/mcp", plain.port), options()).await;
    assert_error(&error, ErrorKind::TransportError, &["https://localhost"]);
}

#[test]
fn system_root_certificates_are_accepted() {
    let (certificate, key) = made();
    let folder = env::temp_dir().join(format!("wharf-client-tls-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("certificate.pem");
    fs::write(&file, &certificate).unwrap();
    fs::write(file.with_extension("key"), key).unwrap();
    let done = Command::new(env::current_exe().unwrap())
        .args(["client_http::tls::trusting", "--exact", "--ignored", "--nocapture"])
        .env("SSL_CERT_FILE", &file)
        .env(CERTIFICATE, &file)
        .output()
        .unwrap();
    fs::remove_dir_all(folder).unwrap();
    let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
}

#[tokio::test]
#[ignore = "run by another test, in a process of its own"]
async fn trusting() {
    let file = std::path::PathBuf::from(env::var(CERTIFICATE).unwrap());
    let certificate = fs::read_to_string(&file).unwrap();
    let key = fs::read_to_string(file.with_extension("key")).unwrap();
    let server = encrypted(&certificate, &key).await;
    let url = format!("https://localhost:{}/mcp", server.port);
    // Over HTTP/2, which both sides support.
    for revision in ["2025-11-25", "2026-07-28"] {
        let link = connect_pinned(&url, revision).await;
        assert_eq!(call(&link, "hello").await.unwrap(), "hello");
        let mut counting = begin(&link, tool("count", r#"{"to":3}"#));
        assert_eq!(text(soon(counting.done()).await).unwrap(), "done");
        assert_eq!(counting.progress(), [1.0, 2.0, 3.0]);
        let mut waiting = begin(&link, tool("gate", "{}"));
        waiting.run_for(std::time::Duration::from_millis(50)).await;
        server.has_calls(1).await;
        drop(waiting);
        server.has_calls(0).await;
        let mut calls = tokio::task::JoinSet::new();
        for number in 0..50 {
            let link = link.clone();
            calls.spawn(async move { call(&link, &number.to_string()).await.unwrap() });
        }
        assert_eq!(soon(calls.join_all()).await.len(), 50);
        soon(link.close()).await;
    }
    // The host name must match the certificate.
    let error = refused(&format!("https://127.0.0.1:{}/mcp", server.port), options()).await;
    assert_error(&error, ErrorKind::TransportError, &["trusted"]);
    let (options, trace) = traced(options());
    connect_http(&url, Vec::new(), options).await.unwrap();
    assert!(trace.lock().unwrap().iter().any(|it| it.contains("HTTP/2.0 200")), "{trace:?}");
}
