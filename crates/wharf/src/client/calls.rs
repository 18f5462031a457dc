//! [`Client`]: typed calls to one server.

use std::{fmt, sync::Arc};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use wharf_client::{
    CallBuilder, ClientHandle, ClientTransport, PagedList, RequestList, ServerInfo, Subscription,
    TaskHandle,
};
use wharf_model::{
    CallError, Completion, CompletionRef, ConnectError, LogLevel, PromptInfo, PromptResult,
    ReadResult, ResourceInfo, ServerCapabilities, Service, SubscriptionFilter, Task, TemplateInfo,
    ToolInfo, ToolResult,
};

use super::{ClientBuilder, Target};

/// Connected client: typed calls to one server, of any protocol version.
///
/// Clones share the connection. [`close`](Client::close) shuts it down gracefully; dropping the
/// last clone ends it, too.
///
/// ```
/// use wharf::{Client, args, prelude::*};
///
/// /// Adds two numbers.
/// #[tool]
/// async fn add(a: i64, b: i64) -> i64 {
///     a + b
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> wharf::Result<()> {
/// // A URL or a command to start would do as well.
/// let server = Server::new("adder", "1.0.0").tool::<add>().build()?;
/// let client = Client::connect(server).await?;
///
/// let sum: i64 = client.call_as("add", args! { a: 1, b: 2 }).await?;
/// assert_eq!(sum, 3);
/// # Ok(())
/// # }
/// ```
// A type of its own, because `connect` and `builder` need the transports, on which `wharf-client`
// does not depend.
#[derive(Clone)]
pub struct Client(pub(crate) ClientHandle);

impl Client {
    /// Connects to a server, negotiates the protocol version, and reads its capabilities.
    ///
    /// ```no_run
    /// # async fn example() -> wharf::Result<()> {
    /// use wharf::{Client, client::ChildCommand};
    ///
    /// let remote = Client::connect("https://example.com/mcp").await?;
    /// let local = Client::connect(ChildCommand::new("npx").args(["-y", "some-server"])).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If there is no such server, or no protocol version is shared with it.
    pub async fn connect(target: impl Into<Target>) -> Result<Client, ConnectError> {
        Client::builder().connect(target).await
    }

    /// Builder of a client: its identity, its handler for server requests, its timeouts.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::new()
    }
}

/// Information about the server, and its lists.
impl Client {
    /// The server's name, version, capabilities and protocol version.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> wharf::Result<()> {
    /// # let server = wharf::Server::new("adder", "1.0.0").build()?;
    /// let client = wharf::Client::connect(server).await?;
    /// assert_eq!(client.about().info.name, "adder");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn about(&self) -> Arc<ServerInfo> {
        self.0.about()
    }

    /// The server's capabilities.
    #[must_use]
    pub fn capabilities(&self) -> ServerCapabilities {
        self.0.capabilities()
    }

    /// The server's tools.
    ///
    /// ```no_run
    /// # async fn example(client: wharf::Client) -> wharf::Result<()> {
    /// for tool in client.tools().all().await? {
    ///     println!("{}: {}", tool.name, tool.description.as_deref().unwrap_or_default());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn tools(&self) -> PagedList<ToolInfo> {
        self.0.tools()
    }

    /// The server's resources.
    pub fn resources(&self) -> PagedList<ResourceInfo> {
        self.0.resources()
    }

    /// The server's resource templates.
    pub fn templates(&self) -> PagedList<TemplateInfo> {
        self.0.templates()
    }

    /// The server's prompts.
    pub fn prompts(&self) -> PagedList<PromptInfo> {
        self.0.prompts()
    }
}

/// Calls.
impl Client {
    /// Calls a tool. A failure of the tool itself is a result as well: see
    /// [`ToolResult::is_error`].
    ///
    /// ```no_run
    /// # async fn example(client: wharf::Client) -> wharf::Result<()> {
    /// let result = client.call("deploy", wharf::args! { build: "1.2.3" }).await?;
    /// if result.is_error {
    ///     println!("failed: {:?}", result.content);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn call(
        &self,
        tool: impl Into<String>,
        arguments: impl Serialize,
    ) -> CallBuilder<ToolResult> {
        self.0.call(tool, arguments)
    }

    /// Calls a tool and deserializes its result: the structured content, or else the only text
    /// content, as JSON if that fits and as a string otherwise. A value that the server wrapped as
    /// `{"result": …}`, because it is not an object, is unwrapped. A failure of the tool is an
    /// error.
    ///
    /// ```no_run
    /// # async fn example(client: wharf::Client) -> wharf::Result<()> {
    /// let sum: i64 = client.call_as("add", wharf::args! { a: 1, b: 2 }).await?;
    /// # drop(sum);
    /// # Ok(())
    /// # }
    /// ```
    pub fn call_as<T: DeserializeOwned>(
        &self,
        tool: impl Into<String>,
        arguments: impl Serialize,
    ) -> CallBuilder<T> {
        self.0.call_as(tool, arguments)
    }

    /// Calls a tool as a task, if the server supports that, and returns its handle immediately. If
    /// the server returns the result instead of creating a task, the handle holds the result.
    ///
    /// ```no_run
    /// # async fn example(client: wharf::Client) -> wharf::Result<()> {
    /// let task = client.call_task("render", wharf::args! { film: "waves" }).await?;
    /// println!("come back for {:?}", task.id());
    /// # Ok(())
    /// # }
    /// ```
    pub fn call_task(
        &self,
        tool: impl Into<String>,
        arguments: impl Serialize,
    ) -> CallBuilder<TaskHandle> {
        self.0.call_task(tool, arguments)
    }

    /// The task with this id, which [`call_task`](Client::call_task) returned in this or another
    /// process. Sends nothing.
    ///
    /// ```no_run
    /// # async fn example(client: wharf::Client, stored_id: String) -> wharf::Result<()> {
    /// let result = client.task(stored_id).wait().await?;
    /// # drop(result);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn task(&self, id: impl Into<String>) -> TaskHandle {
        self.0.task(id)
    }

    /// All tasks of this client (`tasks/list`), on servers that support listing them.
    ///
    /// # Errors
    /// If the server does not list tasks. No server of the newest protocol version does.
    pub async fn tasks(&self) -> Result<Vec<Task>, CallError> {
        self.0.tasks().await
    }

    /// Reads a resource.
    ///
    /// ```no_run
    /// # async fn example(client: wharf::Client) -> wharf::Result<()> {
    /// let result = client.read("file:///etc/motd").await?;
    /// println!("{:?}", result.contents);
    /// # Ok(())
    /// # }
    /// ```
    pub fn read(&self, uri: impl Into<String>) -> CallBuilder<ReadResult> {
        self.0.read(uri)
    }

    /// Gets a prompt's messages. Its arguments are strings.
    ///
    /// ```no_run
    /// # async fn example(client: wharf::Client) -> wharf::Result<()> {
    /// let result = client.prompt("review", wharf::args! { language: "rust" }).await?;
    /// println!("{:?}", result.messages);
    /// # Ok(())
    /// # }
    /// ```
    pub fn prompt(
        &self,
        name: impl Into<String>,
        arguments: impl Serialize,
    ) -> CallBuilder<PromptResult> {
        self.0.prompt(name, arguments)
    }

    /// Requests completions of `value`, an argument of a prompt or a resource template.
    pub fn complete(
        &self,
        of: CompletionRef,
        argument: &str,
        value: &str,
    ) -> CallBuilder<Completion> {
        self.0.complete(of, argument, value)
    }

    /// Sends any request by its method name and returns the result unchanged. `null` params send
    /// none.
    ///
    /// ```no_run
    /// # async fn example(client: wharf::Client) -> wharf::Result<()> {
    /// let result = client.request("example/status", wharf::args! { verbose: true }).await?;
    /// println!("{result}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn request(
        &self,
        method: impl Into<String>,
        params: impl Serialize,
    ) -> CallBuilder<Box<RawValue>> {
        self.0.request(method, params)
    }

    /// Sends a request of any method and deserializes its result. `null` params send none.
    ///
    /// A method that the protocol does not define is a call like that of a tool: the
    /// [`ClientHandler`](crate::client::ClientHandler) answers the requests of its handler. It is
    /// not sent again after a lost connection.
    ///
    /// ```
    /// use wharf::{Client, args, prelude::*};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Period { year: u16 }
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Report { total: u32 }
    ///
    /// async fn report(Args(Period { year }): Args<Period>) -> Json<Report> {
    ///     Json(Report { total: u32::from(year) * 2 })
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> wharf::Result<()> {
    /// let server = Server::new("books", "1.0.0").method("acme/report", report).build()?;
    /// let client = Client::connect(server).await?;
    /// let report: Report = client.request_as("acme/report", args! { year: 2026 }).await?;
    /// assert_eq!(report.total, 4052);
    /// # Ok(())
    /// # }
    /// ```
    pub fn request_as<T: DeserializeOwned>(
        &self,
        method: impl Into<String>,
        params: impl Serialize,
    ) -> CallBuilder<T> {
        self.0.request_as(method, params)
    }

    /// Reads the items of a paginated list from a method of an extension: those of the array `member` of each page.
    /// `params` are sent for each page, with its `cursor`; `null` params send none. The limits are those of the lists of
    /// the protocol.
    ///
    /// ```no_run
    /// # async fn example(client: wharf::Client) -> wharf::Result<()> {
    /// let mut boats = client.request_list::<String>("harbour/boats", (), "boats");
    /// while let Some(boat) = boats.next().await {
    ///     println!("{}", boat?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn request_list<T: DeserializeOwned>(
        &self,
        method: impl Into<String>,
        params: impl Serialize,
        member: impl Into<String>,
    ) -> RequestList<T> {
        self.0.request_list(method, params, member)
    }
}

/// Subscriptions, settings and the connection.
impl Client {
    /// Subscribes to change notifications, and returns when the server has acknowledged the
    /// subscription.
    ///
    /// # Errors
    /// If the server rejects the subscription, or does not acknowledge it in time.
    pub async fn listen(&self, filter: SubscriptionFilter) -> Result<Subscription, CallError> {
        self.0.listen(filter).await
    }

    /// Subscribes to updates of one resource.
    ///
    /// ```no_run
    /// # async fn example(client: wharf::Client) -> wharf::Result<()> {
    /// let mut updates = client.subscribe("file:///var/log/app.log").await?;
    /// while let Some(update) = updates.next().await {
    ///     println!("{:?}", update?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the server does not support resource subscriptions, rejects this one, or does not
    /// acknowledge it in time.
    pub async fn subscribe(&self, uri: impl Into<String>) -> Result<Subscription, CallError> {
        self.0.subscribe(uri).await
    }

    /// Requests log messages of this severity and above, with every call from now on. On servers of
    /// the legacy era this includes messages outside of calls.
    ///
    /// # Errors
    /// If the server sends no log messages, or cannot be reached.
    pub async fn set_log_level(&self, level: LogLevel) -> Result<(), CallError> {
        self.0.set_log_level(level).await
    }

    /// Checks that the server responds.
    ///
    /// # Errors
    /// If it does not respond in time.
    pub async fn ping(&self) -> Result<(), CallError> {
        self.0.ping().await
    }

    /// Notifies the server that the list of roots has changed.
    ///
    /// # Errors
    /// If the handler lists no roots, or the server cannot be reached.
    pub async fn roots_changed(&self) -> Result<(), CallError> {
        self.0.roots_changed().await
    }

    /// Sends a notification that a [`ClientExtension`](crate::client::ClientExtension) of this client's handler
    /// declares. Without a connection (in process), it returns when the server's handler has ended.
    ///
    /// ```
    /// use wharf::{Client, args, client::{ClientExtension, ClientHandlerBuilder}, prelude::*};
    /// use wharf::server::ProtocolExtension;
    ///
    /// const TIDES: &str = "com.example/tides";
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> wharf::Result<()> {
    /// let seen = async |ctx: Ctx| println!("{:?} has seen it", ctx.client().name());
    /// let tides = ProtocolExtension::new(TIDES).on_notification("tides/seen", seen);
    /// let server = Server::new("harbour", "1.0.0").extension(tides).build()?;
    /// let tides = ClientExtension::new(TIDES).notification("tides/seen");
    /// let handler = ClientHandlerBuilder::new().extension(tides);
    /// let client = Client::builder().handler(handler).connect(server).await?;
    /// client.notify("tides/seen", args! {}).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If no extension of the client declares it, if the server does not declare the extension (nothing is sent in
    /// both cases), or if the server cannot be reached.
    pub async fn notify(
        &self,
        method: impl Into<String>,
        params: impl Serialize,
    ) -> Result<(), CallError> {
        self.0.notify(method, params).await
    }

    /// The transport of this client: see [`ClientTransport`].
    #[must_use]
    pub fn transport(&self) -> Arc<dyn ClientTransport> {
        self.0.transport()
    }

    /// The server as a [`Service`], to build a proxy on this client.
    ///
    /// Requests are forwarded unchanged. If the server ends a call with `input_required` and the
    /// downstream client can answer requests during its call, the proxy forwards the requests to
    /// that client and sends the call to the server again. If the transport sends `Mcp-Param-*`
    /// headers, the proxy sets them.
    #[must_use]
    pub fn relay(&self) -> Arc<dyn Service> {
        self.0.relay()
    }

    /// Closes the connection gracefully.
    pub async fn close(&self) {
        self.0.close().await;
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", &self.about().info.name).finish_non_exhaustive()
    }
}
