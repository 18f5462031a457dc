//! Custom methods that the protocol does not define, with Wharf's client: in process, as bytes in each era, and through
//! a proxy.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use wharf::{
    Client, Endpoint, Era, ErrorKind, Principal, args,
    client::{ClientBuilder, ClientHandlerBuilder},
    model::ElicitResult,
    prelude::*,
    server::CustomMethod,
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Period {
    year: u32,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Report {
    total: u32,
    by: Option<String>,
}

#[derive(Clone, Default)]
struct Calls(Arc<AtomicU32>);

async fn report(
    Args(Period { year }): Args<Period>,
    State(calls): State<Calls>,
    caller: Option<Principal>,
    ctx: Ctx,
) -> Json<Report> {
    calls.0.fetch_add(1, Ordering::Relaxed);
    ctx.progress(0.5).await;
    Json(Report { total: year * 2, by: caller.map(|caller| caller.id().to_owned()) })
}

#[derive(Deserialize, JsonSchema)]
struct Sure {
    sure: bool,
}

async fn erase(Args(it): Args<Period>, ctx: Ctx) -> Result<Json<Value>, ToolError> {
    let Sure { sure } = ctx.ask("sure", "Erase?").await?;
    Ok(Json(json!({ "erased": sure.then_some(it.year) })))
}

async fn sleep() {
    tokio::time::sleep(Duration::from_secs(3600)).await;
}

fn server() -> Server {
    Server::new("books", "1.0.0")
        .state(Calls::default())
        .method("acme/report", report)
        .method("acme/erase", erase)
        .method("acme/fail", async || Err::<(), _>(ToolError::new("the books are closed")))
        .add(CustomMethod::new("acme/sleep", sleep).timeout(Duration::from_secs(5)))
        .add(CustomMethod::new("acme/secret", async || Json(json!({"gold": 7}))).scope("vault"))
}

fn endpoint() -> Endpoint {
    server().build().unwrap()
}

/// Clients in process, and with bytes in each era.
fn builders() -> [ClientBuilder; 3] {
    [Client::builder(), Client::builder().era(Era::Modern), Client::builder().era(Era::Legacy)]
}

fn agreeing() -> impl wharf::client::ClientHandler {
    ClientHandlerBuilder::default()
        .elicit(|_| async { Ok(ElicitResult::accept(json!({"sure": true}))) })
}

#[tokio::test]
async fn a_result_is_typed_and_progress_arrives() {
    for builder in builders() {
        let client = builder.connect(endpoint()).await.unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        let call = client.request_as("acme/report", args! { year: 21 });
        let report: Report =
            call.on_progress(move |it| log.lock().unwrap().push(it.progress)).await.unwrap();
        assert_eq!(report, Report { total: 42, by: None });
        assert_eq!(*seen.lock().unwrap(), [0.5]);
        let raw = client.request("acme/report", args! { year: 1 }).await.unwrap();
        assert_eq!(serde_json::from_str::<Value>(raw.get()).unwrap()["total"], 2);
    }
}

#[tokio::test]
async fn its_handler_asks_the_client() {
    for builder in builders() {
        let client = builder.handler(agreeing()).connect(endpoint()).await.unwrap();
        let erased: Value = client.request_as("acme/erase", args! { year: 1999 }).await.unwrap();
        assert_eq!(erased["erased"], 1999);
    }
}

#[tokio::test]
async fn errors_name_the_problem() {
    for builder in builders() {
        let client = builder.connect(endpoint()).await.unwrap();
        let fail = async |method, params: Value| {
            client.request_as::<Value>(method, params).await.unwrap_err()
        };
        assert_eq!(fail("acme/none", json!({})).await.kind(), ErrorKind::MethodNotFound);
        let wrong = fail("acme/report", json!({"year": 1, "month": 2})).await;
        assert_eq!(wrong.kind(), ErrorKind::InvalidParams);
        assert!(wrong.message().contains("month"), "{wrong}");
        let closed = fail("acme/fail", json!({})).await;
        assert_eq!(
            (closed.kind(), closed.message()),
            (ErrorKind::InternalError, "the books are closed")
        );
        let untyped = client.request_as::<Vec<u8>>("acme/report", args! { year: 1 }).await;
        assert_eq!(untyped.unwrap_err().kind(), ErrorKind::ValidationFailed);
    }
}

#[tokio::test(start_paused = true)]
async fn it_has_its_own_timeout() {
    let client = Client::connect(endpoint()).await.unwrap();
    let error = client.request_as::<Value>("acme/sleep", ()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RequestTimeout, "{error}");
}

#[tokio::test]
async fn a_missing_scope_is_named() {
    for builder in builders() {
        let bob = builder.principal(Principal::new("bob")).connect(endpoint()).await.unwrap();
        let error = bob.request_as::<Value>("acme/secret", ()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InsufficientScope, "{error}");
        let report: Report = bob.request_as("acme/report", args! { year: 1 }).await.unwrap();
        assert_eq!(report.by.as_deref(), Some("bob"));
    }
    for builder in builders() {
        let keeper = Principal::new("keeper").with_scope("vault");
        let keeper = builder.principal(keeper).connect(endpoint()).await.unwrap();
        let gold: Value = keeper.request_as("acme/secret", ()).await.unwrap();
        assert_eq!(gold, json!({"gold": 7}));
    }
}

#[tokio::test]
async fn a_proxy_forwards_it_only_if_configured() {
    for upstream in builders() {
        let upstream = upstream.handler(agreeing()).connect(endpoint()).await.unwrap();
        for builder in builders() {
            let closed = Server::from(upstream.clone()).build().unwrap();
            let closed = builder.connect(closed).await.unwrap();
            let error = closed.request_as::<Value>("acme/report", args! { year: 1 }).await;
            assert_eq!(error.unwrap_err().kind(), ErrorKind::MethodNotFound);
        }
        for builder in builders() {
            let open = Server::from(upstream.clone()).forward_custom_methods(true);
            let client = builder.handler(agreeing()).connect(open.build().unwrap()).await.unwrap();
            let report: Report = client.request_as("acme/report", args! { year: 2 }).await.unwrap();
            assert_eq!(report.total, 4);
            let erased: Value = client.request_as("acme/erase", args! { year: 3 }).await.unwrap();
            assert_eq!(erased["erased"], 3);
            let error = client.request_as::<Value>("acme/none", ()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::MethodNotFound);
        }
    }
}

#[test]
fn names_are_checked_when_the_server_is_built() {
    for (name, problem) in [
        ("tools/call", "the protocol defines"),
        ("resources/subscribe", "the protocol defines"),
        ("notifications/acme", "the protocol defines"),
        ("report", "a namespace"),
        ("/report", "a namespace"),
        ("acme/", "a namespace"),
        ("acme/my report", "a namespace"),
        ("acme/report", "added twice"),
    ] {
        let error = server().method(name, async || ()).build().unwrap_err().to_string();
        assert!(error.contains(problem) && error.contains(name), "{error}");
    }
    let registry = endpoint().registry();
    let late = registry.add(CustomMethod::new("acme/late", async || ()));
    assert!(late.unwrap_err().to_string().contains("running server"));
}
