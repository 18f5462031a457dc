//! Server on rmcp with most features of the demo server: `rmcp-server [--http]`.
#![allow(clippy::unwrap_used, clippy::expect_used)]
// rmcp marks the features of legacy clients as deprecated.
#![allow(deprecated)]

mod client_requests;
mod lists;
mod tools;

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::model::*;
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::transport::stdio;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use tokio::sync::broadcast;

pub(crate) const CLOCK: &str = "demo://clock";

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let server = Demo::default();
    if !std::env::args().any(|argument| argument == "--http") {
        let running = server.serve(stdio()).await.expect("a client speaks first");
        let _ = running.waiting().await;
        return;
    }
    // The result of a call that ends while its client is disconnected is lost, so clients have to reconnect soon.
    let retry = Some(Duration::from_millis(50));
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.sse_retry = retry;
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(sessions),
        StreamableHttpServerConfig::default().with_sse_retry(retry),
    );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    eprintln!("http://{}/mcp", listener.local_addr().unwrap());
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await.unwrap();
}

/// State of the server, shared by all sessions and by requests without a session.
#[derive(Clone)]
pub(crate) struct Demo {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) touches: AtomicU32,
    pub(crate) cancelled: AtomicU32,
    pub(crate) bonus: Mutex<bool>,
    pub(crate) subscribed: Mutex<BTreeSet<String>>,
    /// Changes that subscribers receive.
    pub(crate) changes: broadcast::Sender<Change>,
    /// Receivers of subscriptions that are about to start, because a change may follow the acknowledgement at once.
    ears: Mutex<VecDeque<broadcast::Receiver<Change>>>,
}

#[derive(Clone, Copy)]
pub(crate) enum Change {
    Tools,
    Clock,
}

impl Default for Demo {
    fn default() -> Self {
        let shared = Shared {
            touches: AtomicU32::new(0),
            cancelled: AtomicU32::new(0),
            bonus: Mutex::new(false),
            subscribed: Mutex::default(),
            changes: broadcast::channel(64).0,
            ears: Mutex::default(),
        };
        Demo { shared: Arc::new(shared) }
    }
}

impl ServerHandler for Demo {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_prompts()
            .enable_completions()
            .enable_logging()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("foreign-rmcp", "1.0.0"))
            .with_instructions("Add numbers.")
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let bonus = *self.shared.bonus.lock().unwrap();
        Ok(ListToolsResult::with_all_items(lists::tools(bonus)))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        tools::call(self, request, context).await
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(lists::resources()))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(lists::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let touches = self.shared.touches.load(Ordering::SeqCst);
        let text = match request.uri.as_str() {
            "demo://readme" => "Read me.".to_owned(),
            CLOCK => touches.to_string(),
            uri => match uri.strip_prefix("demo://notes/") {
                Some(name) => format!("Note {name}"),
                None => return Err(ErrorData::resource_not_found(format!("no {uri}"), None)),
            },
        };
        Ok(ReadResourceResult::new(vec![ResourceContents::text(text, request.uri)]).into())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.shared.subscribed.lock().unwrap().insert(request.uri);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.shared.subscribed.lock().unwrap().remove(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        filter: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        self.shared.ears.lock().unwrap().push_back(self.shared.changes.subscribe());
        Some(filter.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.shared.ears.lock().unwrap().pop_front().expect("it was accepted");
        loop {
            let change = tokio::select! {
                () = context.cancelled() => return Ok(()),
                change = changes.recv() => change,
            };
            // rmcp rejects a change that this subscription did not request, which is correct.
            let _ = match change {
                Ok(Change::Tools) => context.sink().notify_tool_list_changed().await,
                Ok(Change::Clock) => context.sink().notify_resource_updated(CLOCK).await,
                Err(_) => return Ok(()),
            };
        }
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(lists::prompts()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let argument =
            |name| arguments.get(name).and_then(|value| value.as_str()).map(str::to_owned);
        let text = match (request.name.as_str(), argument("name"), argument("code")) {
            ("greet", Some(name), _) => format!("Say hello to {name}."),
            ("review", _, Some(code)) => {
                let language = argument("language").map(|it| it + " ").unwrap_or_default();
                format!("Review this {language}code:\n{code}")
            }
            _ => {
                return Err(ErrorData::invalid_params(
                    "no such prompt, or an argument lacks",
                    None,
                ));
            }
        };
        let message = PromptMessage::new_text(Role::User, text);
        Ok(GetPromptResult::new(vec![message]).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let words: &[&str] = match request.argument.name.as_str() {
            "language" => &["python", "pascal", "perl", "rust"],
            "name" => &["shopping", "standup", "story"],
            _ => &[],
        };
        let fits = |word: &&&str| word.starts_with(&request.argument.value);
        let values = words.iter().filter(fits).map(|&word| word.to_owned()).collect();
        let completion = CompletionInfo::new(values);
        Ok(CompleteResult::new(completion.map_err(|e| ErrorData::internal_error(e, None))?))
    }

    async fn set_level(
        &self,
        _: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }
}
