//! [`ClientHandler`]: answers elicitation, sampling and roots requests of servers.

use std::{fmt, future::Future, sync::Arc};

use wharf_model::{
    BoxFuture, ClientCapabilities, CustomNotification, ElicitForm, ElicitResult, ElicitUrl,
    ElicitationCapability, Error, Meta, Method, Root, RootsCapability, SamplingCapability,
    SamplingRequest, SamplingResult,
};

use crate::ClientExtension;

/// Answers requests of servers, for every era and transport.
///
/// A request that [`capabilities`](ClientHandler::capabilities) does not declare is rejected before
/// it reaches the handler. Answered forms are completed with their defaults and validated against
/// their schema. [`ClientHandlerBuilder`] builds a handler from closures.
///
/// ```
/// # mod wharf { pub use {wharf_client::*, wharf_model::*}; pub mod client { pub use super::*; } pub mod model { pub use super::*; } }
/// use wharf::client::ClientHandler;
/// use wharf::model::{BoxFuture, ClientCapabilities, Root, RootsCapability};
///
/// struct Workspace(String);
///
/// impl ClientHandler for Workspace {
///     fn capabilities(&self) -> ClientCapabilities {
///         ClientCapabilities::default().roots(RootsCapability::default())
///     }
///
///     fn roots(&self) -> BoxFuture<Result<Vec<Root>, wharf::Error>> {
///         let root = Root::new(self.0.as_str());
///         Box::pin(async move { Ok(vec![root]) })
///     }
/// }
/// ```
pub trait ClientHandler: Send + Sync + 'static {
    /// The supported requests; declared to servers.
    fn capabilities(&self) -> ClientCapabilities;

    /// Asks the user to fill in a form.
    fn elicit(&self, form: ElicitForm) -> BoxFuture<Result<ElicitResult, Error>> {
        drop(form);
        refused(Method::Elicit)
    }

    /// Asks the user for consent to open a URL, showing the whole URL, and opens it.
    fn elicit_url(&self, page: ElicitUrl) -> BoxFuture<Result<ElicitResult, Error>> {
        drop(page);
        refused(Method::Elicit)
    }

    /// Samples a message from a model.
    fn sample(&self, request: SamplingRequest) -> BoxFuture<Result<SamplingResult, Error>> {
        drop(request);
        refused(Method::Sample)
    }

    /// Lists the roots: the directories that the server may work in.
    fn roots(&self) -> BoxFuture<Result<Vec<Root>, Error>> {
        refused(Method::ListRoots)
    }

    /// Called when the server reports that a URL elicitation is complete. Must not block.
    fn elicitation_complete(&self, id: &str) {
        let _ = id;
    }

    /// Returns the notifications of declared extensions that the handler receives: their names, and the
    /// identifiers of the extensions.
    fn received_notifications(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Called with a notification among [`received_notifications`](ClientHandler::received_notifications). Must not
    /// block.
    fn notification(&self, notification: &CustomNotification) {
        let _ = notification;
    }

    /// Returns the identifier of the declared extension whose notification `method` the client may send.
    fn sending_extension(&self, method: &str) -> Option<String> {
        let _ = method;
        None
    }

    /// Returns the identifier of the declared extension that `method` belongs to: a method is called only at servers
    /// that declare its extension.
    fn method_extension(&self, method: &str) -> Option<String> {
        let _ = method;
        None
    }
}

fn refused<T: Send + 'static>(method: Method) -> BoxFuture<Result<T, Error>> {
    Box::pin(std::future::ready(Err(Error::method_not_found(method.name()))))
}

type RequestFn<Q, A> = Option<Arc<dyn Fn(Q) -> BoxFuture<Result<A, Error>> + Send + Sync>>;
type CompletionFn = Option<Arc<dyn Fn(&str) + Send + Sync>>;

/// Builds a [`ClientHandler`] from one closure for each kind of request. Kinds without a closure
/// are not declared.
///
/// ```
/// # mod wharf { pub use {wharf_client::*, wharf_model::*}; pub use wharf_client::ClientHandlerBuilder; pub mod client { pub use super::*; } pub mod model { pub use super::*; } }
/// use wharf::client::{ClientHandler, ClientHandlerBuilder};
/// use wharf::model::{ClientCapability, ElicitResult, Root};
///
/// let answers = ClientHandlerBuilder::new()
///     .elicit(async |form| {
///         println!("{}", form.message);
///         Ok(ElicitResult::decline())
///     })
///     .fixed_roots([Root::new("file:///home/me/project")]);
/// let capabilities = answers.capabilities();
/// assert!(capabilities.has(&ClientCapability::Elicitation));
/// assert!(!capabilities.has(&ClientCapability::Sampling));
/// ```
#[derive(Clone, Default)]
pub struct ClientHandlerBuilder {
    elicit: RequestFn<ElicitForm, ElicitResult>,
    elicit_url: RequestFn<ElicitUrl, ElicitResult>,
    complete: CompletionFn,
    sample: RequestFn<SamplingRequest, SamplingResult>,
    with_tools: bool,
    roots: RequestFn<(), Vec<Root>>,
    roots_change: bool,
    extensions: Vec<ClientExtension>,
}

/// Boxes a closure.
fn boxed<Q, A, F, Fut>(answer: F) -> RequestFn<Q, A>
where
    F: Fn(Q) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<A, Error>> + Send + 'static,
{
    Some(Arc::new(move |question| Box::pin(answer(question))))
}

impl ClientHandlerBuilder {
    /// Creates a handler that rejects every request.
    #[must_use]
    pub fn new() -> Self {
        ClientHandlerBuilder::default()
    }

    /// Declares an extension of the protocol: to servers of modern revisions with each request, to others in the
    /// handshake.
    ///
    /// ```
    /// use wharf_client::{ClientExtension, ClientHandler, ClientHandlerBuilder};
    ///
    /// let tides = ClientExtension::new("com.example/tides").setting("unit", "foot");
    /// let handler = ClientHandlerBuilder::new().extension(tides);
    /// assert!(handler.capabilities().extensions.contains_key("com.example/tides"));
    /// ```
    #[must_use]
    pub fn extension(mut self, extension: ClientExtension) -> Self {
        self.extensions.push(extension);
        self
    }

    /// Sets the closure for form elicitation.
    #[must_use]
    pub fn elicit<F, Fut>(mut self, answer: F) -> Self
    where
        F: Fn(ElicitForm) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ElicitResult, Error>> + Send + 'static,
    {
        self.elicit = boxed(answer);
        self
    }

    /// Sets the closure for URL elicitation. Accepting means that the user consented to open the
    /// URL.
    #[must_use]
    pub fn elicit_url<F, Fut>(mut self, answer: F) -> Self
    where
        F: Fn(ElicitUrl) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ElicitResult, Error>> + Send + 'static,
    {
        self.elicit_url = boxed(answer);
        self
    }

    /// Sets the callback for completed URL elicitations.
    #[must_use]
    pub fn on_elicitation_complete(
        mut self,
        callback: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        self.complete = Some(Arc::new(callback));
        self
    }

    /// Sets the closure for sampling, without tools.
    #[must_use]
    pub fn sample<F, Fut>(mut self, answer: F) -> Self
    where
        F: Fn(SamplingRequest) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<SamplingResult, Error>> + Send + 'static,
    {
        self.sample = boxed(answer);
        self.with_tools = false;
        self
    }

    /// Sets the closure for sampling with the tools that the server provides.
    #[must_use]
    pub fn sample_with_tools<F, Fut>(self, answer: F) -> Self
    where
        F: Fn(SamplingRequest) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<SamplingResult, Error>> + Send + 'static,
    {
        ClientHandlerBuilder { with_tools: true, ..self.sample(answer) }
    }

    /// Sets the closure that lists roots, which may change: the client's `roots_changed` notifies
    /// the server.
    #[must_use]
    pub fn roots<F, Fut>(mut self, answer: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<Root>, Error>> + Send + 'static,
    {
        self.roots = boxed(move |()| answer());
        self.roots_change = true;
        self
    }

    /// Sets fixed roots.
    #[must_use]
    pub fn fixed_roots(mut self, roots: impl IntoIterator<Item = Root>) -> Self {
        let roots: Vec<Root> = roots.into_iter().collect();
        self.roots = boxed(move |()| std::future::ready(Ok(roots.clone())));
        self.roots_change = false;
        self
    }
}

impl ClientHandler for ClientHandlerBuilder {
    fn capabilities(&self) -> ClientCapabilities {
        let mut can = ClientCapabilities::default();
        if !self.extensions.is_empty() {
            let settings = |it: &ClientExtension| (it.id.clone(), it.settings.clone().into());
            can.extensions = self.extensions.iter().map(settings).collect::<Meta>().into();
        }
        let (form, url) = (self.elicit.is_some(), self.elicit_url.is_some());
        if form || url {
            can = can.elicitation(ElicitationCapability::default().form(form).url(url));
        }
        if self.sample.is_some() {
            can = can.sampling(SamplingCapability::default().tools(self.with_tools));
        }
        if self.roots.is_some() {
            can = can.roots(RootsCapability::default().list_changed(self.roots_change));
        }
        can
    }

    fn elicit(&self, form: ElicitForm) -> BoxFuture<Result<ElicitResult, Error>> {
        self.elicit.as_ref().map_or_else(|| refused(Method::Elicit), |answer| answer(form))
    }

    fn elicit_url(&self, page: ElicitUrl) -> BoxFuture<Result<ElicitResult, Error>> {
        self.elicit_url.as_ref().map_or_else(|| refused(Method::Elicit), |answer| answer(page))
    }

    fn sample(&self, request: SamplingRequest) -> BoxFuture<Result<SamplingResult, Error>> {
        self.sample.as_ref().map_or_else(|| refused(Method::Sample), |answer| answer(request))
    }

    fn roots(&self) -> BoxFuture<Result<Vec<Root>, Error>> {
        self.roots.as_ref().map_or_else(|| refused(Method::ListRoots), |answer| answer(()))
    }

    fn elicitation_complete(&self, id: &str) {
        if let Some(callback) = &self.complete {
            callback(id);
        }
    }

    fn received_notifications(&self) -> Vec<(String, String)> {
        let pairs = |it: &ClientExtension| {
            let id = it.id.clone();
            it.received.keys().map(|name| (name.clone(), id.clone())).collect::<Vec<_>>()
        };
        self.extensions.iter().flat_map(pairs).collect()
    }

    fn notification(&self, notification: &CustomNotification) {
        let of_same = self.extensions.iter().filter(|it| it.id == notification.extension);
        if let Some(callback) =
            of_same.filter_map(|it| it.received.get(&notification.method)).next()
        {
            callback(notification);
        }
    }

    fn sending_extension(&self, method: &str) -> Option<String> {
        let sends = |it: &&ClientExtension| it.sent.iter().any(|name| name == method);
        self.extensions.iter().find(sends).map(|it| it.id.clone())
    }

    fn method_extension(&self, method: &str) -> Option<String> {
        let has = |it: &&ClientExtension| it.methods.iter().any(|name| name == method);
        self.extensions.iter().find(has).map(|it| it.id.clone())
    }
}

impl fmt::Debug for ClientHandlerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClientHandlerBuilder").field(&self.capabilities()).finish()
    }
}
