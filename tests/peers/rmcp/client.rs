//! rmcp client that answers every server request and records what it receives.

use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
    ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability, ErrorData,
    Implementation, ListRootsResult, LoggingLevel, LoggingMessageNotificationParam,
    ProgressNotificationParam, ProtocolVersion, ResourceUpdatedNotificationParam, Root,
    RootsCapabilities, SamplingCapability, SamplingMessage,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt, NotificationContext, RequestContext, RunningService,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientHandler, RoleClient};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Message that the server sent outside of a response.
#[derive(Debug, PartialEq)]
pub(crate) enum ClientEvent {
    Progress(f64, Option<f64>),
    Log(LoggingLevel, Value),
    ToolsChanged,
    Updated(String),
}

pub(crate) type Client = RunningService<RoleClient, Handler>;

/// Connects to the server at `url` as a client of this revision.
pub(crate) async fn connect(
    url: String,
    revision: ProtocolVersion,
) -> (Client, UnboundedReceiver<ClientEvent>) {
    let lifecycle = match revision.has_initialize() {
        true => ClientLifecycleMode::Initialize,
        false => ClientLifecycleMode::Auto {
            preferred_versions: vec![revision.clone()],
            legacy_version: None,
        },
    };
    let (hears, heard) = unbounded_channel();
    let transport = StreamableHttpClientTransport::from_uri(url);
    let handler = Handler { revision, hears };
    (handler.serve_with_lifecycle(transport, lifecycle).await.unwrap(), heard)
}

pub(crate) struct Handler {
    revision: ProtocolVersion,
    hears: UnboundedSender<ClientEvent>,
}

impl Handler {
    fn record(&self, heard: ClientEvent) {
        // The receiver is dropped when the test ends.
        let _ = self.hears.send(heard);
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(ElicitationCapability::default());
        capabilities.sampling = Some(SamplingCapability::default());
        capabilities.roots = Some(RootsCapabilities::default());
        ClientConfig::new(capabilities, Implementation::new("foreign-rmcp", "1.0.0"))
            .with_protocol_version(self.revision.clone())
    }

    async fn create_elicitation(
        &self,
        ask: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = ask
        else {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        assert_eq!(message, "Deploy v7?");
        assert!(requested_schema.properties.contains_key("confirmed"), "{requested_schema:?}");
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({"confirmed": true})))
    }

    async fn create_message(
        &self,
        ask: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        assert_eq!(ask.max_tokens, 100);
        let line = SamplingMessage::assistant_text("The sea, the sea.");
        Ok(CreateMessageResult::new(line, "foreign".to_owned()))
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(vec![Root::new("file:///work/one"), Root::new("file:///work/two")]))
    }

    async fn on_progress(
        &self,
        progress: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.record(ClientEvent::Progress(progress.progress, progress.total));
    }

    async fn on_logging_message(
        &self,
        log: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.record(ClientEvent::Log(log.level, log.data));
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.record(ClientEvent::ToolsChanged);
    }

    async fn on_resource_updated(
        &self,
        updated: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.record(ClientEvent::Updated(updated.uri));
    }
}
