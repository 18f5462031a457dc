//! MCP client: typed calls to any server, over any [`ClientTransport`].
//!
//! Nothing here does I/O or names a protocol revision: a transport is a
//! [`Service`](wharf_model::Service) that also describes its server. A [`ClientHandle`] sends
//! requests over it, answers requests of the server with a [`ClientHandler`], caches results and
//! retries calls that are safe to repeat.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod cache;
mod call;
mod client_handle;
mod client_transport;
mod in_process;
mod list_limits;
mod pagination;
mod proxy;
mod request_list;
mod server_requests;
mod subscription;
mod task;

pub use crate::call::builder::{CallBuilder, LogMessage, Progress};
pub use crate::call::options::CallOptions;
pub use crate::client_handle::ClientHandle;
pub use crate::client_transport::{
    ClientTransport, ControlRequest, NotificationListener, ServerInfo,
};
pub use crate::in_process::{local, local_with};
pub use crate::pagination::{Listable, PagedList};
pub use crate::request_list::RequestList;
pub use crate::server_requests::dispatch::answer_to;
pub use crate::server_requests::extension::ClientExtension;
pub use crate::server_requests::handler::{ClientHandler, ClientHandlerBuilder};
pub use crate::subscription::Subscription;
pub use task::{TaskChanges, TaskHandle, task_json};
pub use wharf_model::{CallError, ConnectError, TimeoutKind};

/// Names that [`args!`] expands to.
#[doc(hidden)]
pub mod __private {
    pub use serde_json::{Map, Value, json};
    pub use std::string::String;
}
