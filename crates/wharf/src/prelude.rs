//! Common imports of servers: `use wharf::prelude::*;`.

#[cfg(all(feature = "apps", feature = "server"))]
pub use crate::apps::{CtxAppExt as _, ToolAppExt as _};
#[cfg(feature = "server")]
pub use crate::{
    Args, Ctx, Extension, Json, Prompt, RawArgs, Resource, Server, State, Tool, ToolError, Uri,
    prompt, resource, server::ClientRequestError, tool,
};
pub use crate::{
    CompletionRequest, Content, Error, ErrorKind, Principal, ToolResult,
    model::{
        Completion, Icon, LogLevel, PromptMessage, ResourceContents, Role, SamplingMessage,
        SamplingRequest,
    },
};
#[cfg(feature = "server")]
pub use schemars::JsonSchema;
pub use serde::{Deserialize, Serialize};
