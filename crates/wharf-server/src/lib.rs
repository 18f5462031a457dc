//! Tools, resources and prompts as plain functions, and the router that brings calls to them.
//!
//! Nothing here knows a protocol revision or does I/O. A [`Router`] is a
//! [`Service`](wharf_model::Service): it takes requests in canonical form and ends each with one
//! outcome. Users depend on the crate `wharf`, which adds transports and macros.
//!
//! ```
//! # mod wharf { pub use {wharf_model::*, wharf_server::*}; }
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use wharf::{Args, Router, Tool};
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Add { a: i64, b: i64 }
//!
//! let router = Router::builder()
//!     .add(Tool::new("add", async |Args(Add { a, b }): Args<Add>| a + b))
//!     .build()?;
//! # let _ = router;
//! # Ok::<(), wharf::BuildError>(())
//! ```
#![forbid(unsafe_code)]

mod access;
mod ask;
mod blocking;
mod build_error;
mod builder;
mod calls;
mod complete;
mod core;
mod ctx;
mod described;
mod dice;
mod elicit;
mod extract;
mod fleet;
mod function;
mod gate;
mod handler;
mod hub;
mod into_completion;
mod into_contents;
mod into_prompt;
mod into_tool;
mod kinds;
mod limits;
mod listens;
mod middleware;
mod page;
mod park;
mod prepare;
mod private_file;
mod progress;
mod prompt;
mod registry;
mod resource;
mod router;
mod rules;
mod schema;
mod seal;
mod shares;
mod snapshot;
mod step;
mod strings;
mod tasks;
mod template;
mod testing;
mod tool;
mod tool_error;
mod uri;

use wharf_schema::{header, lenient, mirror};

#[cfg(feature = "simulation")]
pub use crate::dice::seeded::seed_chance;
#[cfg(feature = "tower")]
pub use crate::middleware::{TowerLayer, TowerNext};
pub use crate::{
    access::{Access, Item},
    ask::*,
    build_error::{BuildError, Problem},
    builder::{Part, PromptFn, ResourceFn, RouterBuilder, ToolFn},
    ctx::*,
    extract::{Args, Completing, Declaration, Extension, Extract, Incoming, RawArgs, State, Uri},
    function::{Handler, PlainHandler},
    into_completion::{Completer, IntoCompletion},
    into_contents::IntoContents,
    into_prompt::IntoPrompt,
    into_tool::{IntoToolOutcome, Json},
    limits::{Limits, Rates},
    middleware::{
        Concurrency, Middleware, Next, PanicGuard, RateKey, RateLimit, Timeout, Tracing, layered,
    },
    private_file::read_private,
    prompt::Prompt,
    registry::Registry,
    resource::Resource,
    router::Router,
    seal::*,
    step::*,
    tasks::{SpawnedTask, TaskMode, TaskOptions},
    template::*,
    testing::*,
    tool::Tool,
    tool_error::{IntoToolError, ToolError},
};
pub use wharf_store::{MemoryBus, MemoryNonces, MemoryRates, MemoryRecords, memory_stores};
