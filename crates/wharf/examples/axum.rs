//! Two servers in one axum application, behind one layer that knows who is calling.
//!
//! ```sh
//! cargo run -p wharf-mcp --example axum --features axum
//! ```
//!
//! Clients reach them at `http://127.0.0.1:8000/weather/mcp` and `http://127.0.0.1:8000/notes/mcp`,
//! with `Authorization: Bearer alice-secret` or `bob-secret`. The variable `ADDRESS` names another address. Ctrl-C, or
//! SIGTERM, ends it: streams end, calls have five seconds to do so, and each is answered.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    extract::Request,
    http::{StatusCode, header},
    middleware::{Next, from_fn},
    response::{IntoResponse, Response},
    routing::get,
};
use wharf::{Endpoint, prelude::*};

/// What the application's own layer knows about the caller, beside who it is.
#[derive(Clone)]
struct Tenant(&'static str);

/// Tells the weather where the caller's company is.
#[tool(read_only)]
async fn weather(Extension(tenant): Extension<Tenant>) -> String {
    format!("It rains at {}.", tenant.0)
}

/// Watches the sky for some seconds.
#[tool(read_only)]
async fn watch(seconds: u32, ctx: Ctx) -> String {
    for second in 0..seconds {
        ctx.progress_of(second.into(), seconds.into()).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    "It still rains.".to_owned()
}

/// Notes, by whose they are.
type Notes = Arc<Mutex<HashMap<String, Vec<String>>>>;

/// Keeps a note; nobody else sees it.
#[tool]
async fn note(text: String, State(notes): State<Notes>, caller: Principal) -> String {
    let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
    let mine = notes.entry(caller.id().to_owned()).or_default();
    mine.push(text);
    mine.join("\n")
}

/// Who may call. A real application asks its database, or the token's issuer.
static CALLERS: &[(&str, &str, Tenant)] = &[
    ("Bearer alice-secret", "alice", Tenant("Acme")),
    ("Bearer bob-secret", "bob", Tenant("Bolts & Co")),
];

/// Lets in who is known, and says who it is: handlers take it as `Principal` and `Extension<Tenant>`.
async fn authenticate(mut request: Request, next: Next) -> Response {
    let token = request.headers().get(header::AUTHORIZATION).and_then(|it| it.to_str().ok());
    let Some((_, name, tenant)) = CALLERS.iter().find(|it| Some(it.0) == token) else {
        let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
        return (StatusCode::UNAUTHORIZED, challenge, "Who are you?").into_response();
    };
    request.extensions_mut().insert(Principal::new(*name));
    request.extensions_mut().insert(tenant.clone());
    next.run(request).await
}

fn application() -> wharf::Result<(Router, Vec<Endpoint>)> {
    let weather = Server::new("weather", "1.0.0").tool::<weather>().tool::<watch>().build()?;
    let notes = Server::new("notes", "1.0.0").state(Notes::default()).tool::<note>().build()?;
    let servers = Router::new()
        .nest("/weather", weather.axum())
        .nest("/notes", notes.axum())
        .layer(from_fn(authenticate));
    let application = Router::new().route("/health", get(|| async { "well" })).merge(servers);
    Ok((application, vec![weather, notes]))
}

#[tokio::main]
async fn main() -> wharf::Result<()> {
    let (application, servers) = application()?;
    let address = std::env::var("ADDRESS").unwrap_or_else(|_| "127.0.0.1:8000".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    println!("http://{address}/weather/mcp and http://{address}/notes/mcp");
    // Streams must end for axum to end, so all servers are told when the process is.
    let told = servers.clone();
    let told = async move {
        told[0].shutdown_on_signals().await;
        told.iter().for_each(Endpoint::shutdown);
    };
    axum::serve(listener, application).with_graceful_shutdown(told).await?;
    // WebSockets are no longer axum's, but still ours.
    for server in &servers {
        server.drained().await;
    }
    Ok(())
}

#[cfg(all(test, unix))]
#[path = "axum/signals.rs"]
mod signals;

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use serde_json::{Value, json};
    use tower::ServiceExt;

    use super::*;

    async fn call(app: &Router, path: &str, token: &str, tool: &str, arguments: Value) -> Value {
        let version = "2026-07-28";
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": tool, "arguments": arguments, "_meta": {
                "io.modelcontextprotocol/protocolVersion": version,
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        }});
        let request = Request::post(path)
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {token}"))
            .header("mcp-protocol-version", version)
            .header("mcp-method", "tools/call")
            .header("mcp-name", tool)
            .body(Body::from(message.to_string()))
            .unwrap();
        let reply = app.clone().oneshot(request).await.unwrap();
        if reply.status() != StatusCode::OK {
            return reply.status().as_u16().into();
        }
        let body = to_bytes(reply.into_body(), usize::MAX).await.unwrap();
        let reply: Value = serde_json::from_slice(&body).unwrap();
        reply["result"]["content"][0]["text"].clone()
    }

    #[tokio::test]
    async fn handlers_receive_the_extensions_of_a_layer() {
        let (app, _) = application().unwrap();
        let weather = |token| call(&app, "/weather/mcp", token, "weather", json!({}));
        assert_eq!(weather("alice-secret").await, "It rains at Acme.");
        assert_eq!(weather("bob-secret").await, "It rains at Bolts & Co.");
        assert_eq!(weather("stolen").await, 401);
        let note = |token, text| call(&app, "/notes/mcp", token, "note", json!({"text": text}));
        assert_eq!(note("alice-secret", "one").await, "one");
        assert_eq!(note("bob-secret", "two").await, "two");
        assert_eq!(note("alice-secret", "three").await, "one\nthree");
    }
}
