//! Servers: the builder, the built endpoint, and the interfaces that handlers are made of.

#[cfg(feature = "metrics")]
mod admin;
#[cfg(feature = "apps")]
mod apps;
mod builder;
#[cfg(feature = "server-card")]
mod card;
mod command_line;
mod endpoint;
#[cfg(feature = "http")]
mod http;
mod limits;
#[cfg(feature = "otlp")]
mod otlp;
mod reply_stream;
mod run;
mod run_log;
#[cfg(feature = "skills")]
mod skills;
#[cfg(feature = "http")]
mod startup_notice;

#[cfg(feature = "metrics")]
pub use admin::AdminOptions;
pub use builder::Server;
pub use command_line::{CommandLine, CommandLineOption, Transport};
pub use endpoint::{ClientEnd, Endpoint};
pub use limits::Limits;
pub use reply_stream::ReplyStream;
pub use wharf_server::{
    Access, AccessCheck, BuildError, BuildProblem, CallLimits, ClientRequestError, Completer,
    CustomMethod, Declaration, Extract, Handler, Incoming, IntoCompletion, IntoContents,
    IntoMethodResult, IntoPrompt, IntoToolError, IntoToolOutcome, Item, KeyError, KeyRing, Part,
    PlainHandler, PromptFn, ProtocolExtension, Rates, Registry, ResourceFn, Router, RouterBuilder,
    ServerParts, StepError, ToolFn, WeakRegistry, read_private, safe_join,
};
pub use wharf_transport::{LineLimits, Shutdown, ThreadTimer, TokioTimer};
pub use wharf_wire::{ErrorProfile, LaterIdentity, MessageLimits};
