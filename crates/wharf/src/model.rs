//! Types of the protocol and of calls, for services, transports and gateways of your own.

pub use crate::protocol_version::UnknownRevision;
pub use wharf_model::{
    ActiveCall, Annotations, Body, BoxFuture, Budget, BudgetFull, BudgetShare, CacheHint,
    CacheScope, Caller, ChangeVersion, ClientCapabilities, ClientCapability, ClientInfo,
    ClientRequest, ClientRequestId, Completion, CompletionRef, CompletionRequest, Deadlines,
    Direction, Discovery, ElicitAction, ElicitForm, ElicitResult, ElicitUrl, ElicitationCapability,
    EmbeddedResource, EncodedForms, Envelope, Event, Execution, HeaderParams, Icon, Implementation,
    InputMode, InputRequired, JsonMember, JsonObject, JsonText, LazyJson, LazyTree, ListCapability,
    LiveSubscriptionFilter, LogLevel, METHODS, Media, Message, Meta, Method, MethodInfo, ModelHint,
    ModelPreferences, Notification, OnCallEnd, Outbox, Outcome, Page, PageBody, Parts, Pause, Peer,
    PromptArgument, PromptInfo, PromptMessage, PromptResult, ReadResult, RegisteredError,
    RemoteAddress, Reply, Request, RequestBuilder, RequestExtensions, ResourceContents,
    ResourceInfo, ResourcesCapability, ResponseFuture, ResponseSender, Role, Root, RootsCapability,
    RootsResult, SamplingCapability, SamplingMessage, SamplingRequest, SamplingResult,
    ServerCapabilities, Service, Span, SubscriptionFilter, TemplateInfo, Text, Timer,
    ToolAnnotations, ToolChoice, ToolInfo, ToolResultContent, ToolUse, Trusted, UnknownFields,
};
