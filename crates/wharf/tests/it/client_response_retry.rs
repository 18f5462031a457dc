//! A client resends its response to a server request while the server temporarily cannot accept it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    body::{Body, to_bytes},
    extract::Request,
    http::StatusCode,
    middleware::{Next, from_fn},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use wharf::{Client, Era, client::ClientHandlerBuilder, model::ElicitResult, prelude::*};
use wharf_server::ClientRequestError;

#[derive(serde::Deserialize, JsonSchema)]
struct Answer {
    word: String,
}

#[tool]
async fn ask(ctx: Ctx) -> Result<String, ClientRequestError> {
    let said: Answer = ctx.ask("word", "Which word?").await?;
    Ok(said.word)
}

/// Rejects the first two responses, as a server whose store is unavailable does.
async fn refuse(refused: Arc<AtomicUsize>, request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.unwrap();
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    if message.get("result").is_some() && refused.fetch_add(1, Ordering::SeqCst) < 2 {
        return (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "1")]).into_response();
    }
    next.run(Request::from_parts(head, Body::from(body))).await
}

#[tokio::test]
async fn an_answer_that_is_refused_for_now_is_given_again() {
    let refused = Arc::<AtomicUsize>::default();
    let counted = refused.clone();
    let layer = from_fn(move |request, next| refuse(counted.clone(), request, next));
    let endpoint = Server::new("asks", "1.0.0").tool::<ask>().build().unwrap();
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, endpoint.axum().layer(layer)).await });
    let answers = ClientHandlerBuilder::new()
        .elicit(async |_| Ok(ElicitResult::accept(json!({"word": "mole"}))));
    let client = Client::builder().era(Era::Legacy).handler(answers);
    let client = client.connect(url.as_str()).await.unwrap();
    let call = client.call_as::<String>("ask", json!({})).into_future();
    let said = tokio::time::timeout(Duration::from_secs(60), call).await.unwrap().unwrap();
    assert_eq!(said, "mole");
    assert_eq!(refused.load(Ordering::SeqCst), 3);
}
