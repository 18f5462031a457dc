//! Server framework: tools, resources and prompts as plain functions, and the router that
//! dispatches requests to them.
//!
//! This crate does no I/O and contains no protocol revision. A [`Router`] is a
//! [`Service`](wharf_model::Service): it receives requests in canonical form and completes each
//! with one outcome. Users depend on the crate `wharf`, which adds transports and macros.
//!
//! ```
//! # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod server { pub use super::*; } }
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use wharf::{Args, Tool, server::Router};
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Add { a: i64, b: i64 }
//!
//! let router = Router::builder()
//!     .add(Tool::new("add", async |Args(Add { a, b }): Args<Add>| a + b))
//!     .build()?;
//! # let _ = router;
//! # Ok::<(), wharf::server::BuildError>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod builder;
mod call_facts;
mod call_tracing;
mod context;
mod event_log;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod handler;
mod key_ring;
mod limits;
mod middleware;
mod notifications;
mod primitives;
mod random;
mod router;
mod schema;
mod secret_file;
mod tasks;
mod testing;

use wharf_schema::{header_annotations, lenient_json, param_headers};

#[cfg(feature = "tower")]
pub use crate::middleware::{TowerLayer, TowerNext};
#[cfg(feature = "simulation")]
pub use crate::random::seeded::seed_rng;
pub use crate::{
    builder::{Part, PromptFn, ResourceFn, RouterBuilder, ToolFn},
    call_tracing::Tracing,
    limits::{CallLimits, Rates},
    middleware::{
        Concurrency, Middleware, Next, PanicGuard, RateKey, RateLimit, Timeout, from_fn, layered,
    },
    router::Router,
    tasks::{SpawnedTask, TaskMode, TaskOptions},
    testing::*,
};
pub use crate::{
    builder::{
        error::{BuildError, BuildProblem},
        server_parts::ServerParts,
    },
    context::{client_requests::*, step::*, *},
    handler::{
        Handler, PlainHandler,
        builtin_extractors::{Args, Extension, RawArgs, State, Uri},
        extract::{Declaration, Extract, Extractor, Incoming, extractor},
        into_completion::{Completer, IntoCompletion},
        into_contents::IntoContents,
        into_method_result::IntoMethodResult,
        into_prompt::IntoPrompt,
        into_tool::{IntoToolOutcome, Json},
        tool_error::{IntoToolError, ToolError},
    },
    key_ring::*,
    primitives::{
        custom_method::CustomMethod, extension::ProtocolExtension, prompt::Prompt,
        resource::Resource, safe_join::safe_join, tool::Tool,
    },
    router::{
        access::{Access, AccessCheck, Item},
        runtime_changes::{Registry, WeakRegistry},
    },
    secret_file::read_private,
};
pub use wharf_store::{MemoryBus, MemoryNonces, MemoryRates, MemoryRecords, memory_stores};
