//! Benchmark server on rmcp, in its fastest setup: the routers are built once and shared. The factory in rmcp's
//! documentation rebuilds them for each session, which costs more with every tool.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::serve::ListenerExt;
use bench::command_line::{Mode, Serve};
use bench::work::{NOTIFICATIONS, WAIT, prime_factors};
use rmcp::handler::server::router::prompt::PromptRouter;
use rmcp::handler::server::router::tool::{ToolRoute, ToolRouter};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{
    CallToolResult, ContentBlock, JsonObject, ListResourcesResult, PaginatedRequestParams,
    ProgressNotificationParam, PromptMessage, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, RequestMetaObject, Resource, ResourceContents, Role, ServerCapabilities,
    ServerConfig, SubscriptionFilter, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{
    ErrorData, Json, Peer, RoleServer, ServerHandler, ServiceExt, prompt, prompt_handler,
    prompt_router, tool, tool_handler, tool_router,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::time::sleep;

#[derive(Deserialize, JsonSchema)]
struct EchoArgs {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct AddArgs {
    a: i64,
    b: i64,
}

#[derive(Deserialize, JsonSchema)]
struct NumberArgs {
    n: u64,
}

#[derive(Serialize, JsonSchema)]
struct AddResult {
    result: i64,
}

#[derive(Serialize, JsonSchema)]
struct CountResult {
    result: u64,
}

#[derive(Clone)]
struct Bench {
    tools: ToolRouter<Self>,
    prompts: PromptRouter<Self>,
}

#[tool_router]
impl Bench {
    fn new(extra: usize) -> Result<Self, serde_json::Error> {
        let schema =
            r#"{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}"#;
        let schema: Arc<JsonObject> = Arc::new(serde_json::from_str(schema)?);
        let mut tools = Self::tool_router();
        for i in 0..extra {
            let about = format!("Generated tool number {i}");
            let tool = Tool::new(format!("tool_{i}"), about, Arc::clone(&schema));
            tools.add_route(ToolRoute::new_dyn(tool, |call| {
                let args = call.arguments.as_ref().and_then(|args| args.get("text")?.as_str());
                let args = args.unwrap_or_default().to_owned();
                Box::pin(async {
                    Ok(CallToolResult::success(vec![ContentBlock::text(args)]).into())
                })
            }));
        }
        Ok(Bench { tools, prompts: Self::prompt_router() })
    }

    #[tool(description = "Returns its text.")]
    async fn echo(&self, Parameters(args): Parameters<EchoArgs>) -> String {
        args.text
    }

    #[tool(description = "Adds two numbers.")]
    async fn add(&self, Parameters(args): Parameters<AddArgs>) -> Json<AddResult> {
        Json(AddResult { result: args.a + args.b })
    }

    #[tool(description = "Sends a hundred notifications.")]
    async fn progress(
        &self,
        meta: RequestMetaObject,
        client: Peer<RoleServer>,
    ) -> Result<String, ErrorData> {
        let token = meta.get_progress_token();
        let token = token.ok_or_else(|| ErrorData::invalid_params("no progress token", None))?;
        for done in 1..=NOTIFICATIONS {
            let progress = ProgressNotificationParam::new(token.clone(), done.into());
            let sent = client.notify_progress(progress.with_total(NOTIFICATIONS.into())).await;
            sent.map_err(|e| ErrorData::internal_error(e.to_string(), None))?;
        }
        Ok("done".to_owned())
    }

    #[tool(description = "Returns the number.")]
    async fn noop(&self, Parameters(args): Parameters<NumberArgs>) -> Json<CountResult> {
        Json(CountResult { result: args.n })
    }

    #[tool(description = "Counts prime factors.")]
    async fn compute(&self, Parameters(args): Parameters<NumberArgs>) -> Json<CountResult> {
        Json(CountResult { result: prime_factors(args.n) })
    }

    #[tool(description = "Counts prime factors between two waits.")]
    async fn io(&self, Parameters(args): Parameters<NumberArgs>) -> Json<CountResult> {
        sleep(WAIT).await;
        let result = prime_factors(args.n);
        sleep(WAIT).await;
        Json(CountResult { result })
    }
}

#[prompt_router]
impl Bench {
    #[prompt(name = "hello", description = "A greeting.")]
    async fn hello(&self) -> Vec<PromptMessage> {
        vec![PromptMessage::new_text(Role::User, "hello")]
    }
}

#[tool_handler(router = self.tools)]
#[prompt_handler(router = self.prompts)]
impl ServerHandler for Bench {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_tool_list_changed();
        ServerConfig::new(capabilities.enable_resources().enable_prompts().build())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resource = Resource::new("mem://static", "static").with_mime_type("text/plain");
        Ok(ListResourcesResult::with_all_items(vec![resource]))
    }

    async fn read_resource(
        &self,
        _: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        Ok(ReadResourceResult::new(vec![ResourceContents::text("static", "mem://static")]).into())
    }
}

async fn serve_http(bench: Bench, address: SocketAddr, mode: Mode) -> io::Result<()> {
    let config = StreamableHttpServerConfig::default();
    let config = match mode {
        Mode::Stateful => config,
        Mode::Stateless | Mode::Modern => {
            config.with_legacy_session_mode(false).with_json_response(true)
        }
    };
    let bench = Arc::new(bench);
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(Arc::clone(&bench)), sessions, config);
    let listener = TcpListener::bind(address).await?.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let serve = Serve::from_command_line()?;
    let bench = Bench::new(serve.tools())?;
    match serve {
        Serve::Stdio { .. } => {
            bench.serve(rmcp::transport::stdio()).await?.waiting().await?;
        }
        Serve::Http { address, mode, .. } => serve_http(bench, address, mode).await?,
    }
    Ok(())
}
