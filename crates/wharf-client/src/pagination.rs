//! [`PagedList`]: reads all pages of a list.

use std::{
    collections::HashSet,
    fmt,
    future::poll_fn,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use futures_core::Stream;
use wharf_model::{
    BoxFuture, Error, ErrorKind, Method, Page, PromptInfo, Reply, ResourceInfo, TemplateInfo,
    ToolInfo,
};

use crate::{
    CallError, ClientHandle,
    call::{
        builder::{CallHooks, CallKind, CallResult},
        request::CallSpec,
        result::unexpected,
        run,
        run::CallLimits,
    },
    list_limits::ListUsage,
};

/// An item type of a paginated list: a tool, a resource, a resource template or a prompt.
///
/// ```
/// # mod wharf { pub use wharf_client::*; pub mod client { pub use super::*; } }
/// use wharf::client::{Listable, PagedList};
///
/// async fn count<T: Listable>(mut list: PagedList<T>) -> Result<usize, wharf_model::Error> {
///     let mut count = 0;
///     while let Some(item) = list.next().await {
///         item?;
///         count += 1;
///     }
///     Ok(count)
/// }
/// ```
pub trait Listable: sealed::Listable + Send + Sync + 'static {}

pub(crate) mod sealed {
    use super::{Arc, ClientHandle, Method, Page, Reply};

    pub trait Listable: Sized {
        const METHOD: Method;
        fn page(reply: Reply) -> Option<Page<Self>>;
        /// The usable items of a page.
        fn filter_usable(
            items: Vec<Arc<Self>>,
            caller: &ClientHandle,
            generation: u64,
        ) -> Vec<Arc<Self>> {
            let _ = (caller, generation);
            items
        }
        /// The name, which must be unique in the list.
        fn name(&self) -> Option<&str> {
            None
        }
    }
}

macro_rules! listed {
    ($($T:ident = $method:ident, $reply:ident { $($more:tt)* })*) => {
        $(impl Listable for $T {}
        impl sealed::Listable for $T {
            const METHOD: Method = Method::$method;
            fn page(reply: Reply) -> Option<Page<Self>> {
                match reply {
                    Reply::$reply(page) => Some(page),
                    _ => None,
                }
            }
            $($more)*
        })*
    };
}

listed! {
    ToolInfo = ListTools, Tools {
        fn filter_usable(items: Vec<Arc<Self>>, caller: &ClientHandle, generation: u64) -> Vec<Arc<Self>> {
            caller.server_state().add_tools(items, caller.transport().sends_param_headers(), generation)
        }
        fn name(&self) -> Option<&str> {
            Some(&self.name)
        }
    }
    ResourceInfo = ListResources, Resources {}
    TemplateInfo = ListTemplates, Templates {}
    PromptInfo = ListPrompts, Prompts {}
}

/// A paginated list, read page by page as it is polled: a stream, or [`all`](PagedList::all) at
/// once. A list that the server does not offer is empty.
///
/// ```
/// # mod wharf { pub use wharf_client::*; pub use wharf_client::ClientHandle as Client; pub mod client { pub use super::*; } }
/// # async fn example(client: wharf::Client) -> Result<(), wharf_model::Error> {
/// let mut tools = client.tools();
/// while let Some(tool) = tools.next().await {
///     println!("{}", tool?.name);
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "a list does nothing unless polled"]
pub struct PagedList<T: Listable> {
    caller: ClientHandle,
    cached: bool,
    items: std::vec::IntoIter<Arc<T>>,
    state: PageState<T>,
    progress: ListProgress,
}

type PageFuture<T> = BoxFuture<Result<(Page<T>, u64), Error>>;

enum PageState<T> {
    /// Fetch the page at this cursor; the first page has none.
    Next(Option<String>),
    Fetching(PageFuture<T>, Instant),
    /// End with this error, after the remaining items.
    Fail(Error),
    Over,
}

/// Consumption of the limits by the pages read so far, and the names on them.
#[derive(Default)]
struct ListProgress {
    usage: ListUsage,
    names: HashSet<String>,
    /// Generation of the list when its first page was requested.
    generation: Option<u64>,
}

impl<T: Listable> PagedList<T> {
    pub(crate) fn new(caller: &ClientHandle) -> Self {
        let offered = caller.about().discovery.capabilities.offer(T::METHOD);
        let state = if offered { PageState::Next(None) } else { PageState::Over };
        let (caller, items) = (caller.clone(), Vec::new().into_iter());
        PagedList { caller, cached: true, items, state, progress: ListProgress::default() }
    }

    /// Bypasses the cache.
    pub fn no_cache(mut self) -> Self {
        self.cached = false;
        self
    }

    /// The next item; `None` after the last.
    pub async fn next(&mut self) -> Option<Result<Arc<T>, CallError>> {
        self.next_item().await.map(|item| item.map_err(CallError::of_outcome))
    }

    pub(crate) async fn next_item(&mut self) -> Option<Result<Arc<T>, Error>> {
        poll_fn(|cx| self.poll_item(cx)).await
    }

    /// Reads all items. Starts again once if the list changes meanwhile.
    ///
    /// # Errors
    /// If a page cannot be read, or the list exceeds a limit.
    pub async fn all(self) -> Result<Vec<Arc<T>>, CallError> {
        self.all_items().await.map_err(CallError::of_outcome)
    }

    async fn all_items(mut self) -> Result<Vec<Arc<T>>, Error> {
        match self.rest().await {
            Ok(all) if !self.has_changed() => return Ok(all),
            Err(error) if !self.is_outdated(&error) => return Err(error),
            _ => {}
        }
        PagedList::new(&self.caller).no_cache().rest().await
    }

    fn has_changed(&self) -> bool {
        let now = self.caller.server_state().generation(T::METHOD);
        self.progress.generation.is_some_and(|began| began != now)
    }

    async fn rest(&mut self) -> Result<Vec<Arc<T>>, Error> {
        let mut all = Vec::new();
        while let Some(item) = self.next_item().await {
            all.push(item?);
        }
        Ok(all)
    }

    /// Returns whether `error` may mean that a cursor is outdated because the list has changed.
    fn is_outdated(&self, error: &Error) -> bool {
        let is_cursor = matches!(error.kind, ErrorKind::InvalidCursor | ErrorKind::InvalidParams);
        is_cursor && self.progress.usage.pages > 0
    }

    fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Arc<T>, Error>>> {
        loop {
            if let Some(item) = self.items.next() {
                return Poll::Ready(Some(Ok(item)));
            }
            self.state = match mem::replace(&mut self.state, PageState::Over) {
                PageState::Over => return Poll::Ready(None),
                PageState::Fail(error) => return Poll::Ready(Some(Err(error))),
                PageState::Next(cursor) => self.fetch_page(cursor),
                PageState::Fetching(mut fetching, since) => match fetching.as_mut().poll(cx) {
                    Poll::Ready(Ok((page, generation))) => self.add_page(page, generation, since),
                    Poll::Ready(Err(error)) => PageState::Fail(error),
                    Poll::Pending => {
                        self.state = PageState::Fetching(fetching, since);
                        return Poll::Pending;
                    }
                },
            };
        }
    }

    /// Requests a page, within the time that the earlier pages have left.
    fn fetch_page(&self, cursor: Option<String>) -> PageState<T> {
        let total = match self.progress.usage.time_left(&self.caller) {
            Ok(left) => left,
            Err(error) => return PageState::Fail(error),
        };
        let now = self.caller.timer().now();
        let limits = CallLimits { total, cached: self.cached, ..CallLimits::of(&self.caller) };
        PageState::Fetching(Box::pin(fetch(self.caller.clone(), cursor, limits)), now)
    }

    fn add_page(&mut self, page: Page<T>, generation: u64, since: Instant) -> PageState<T> {
        match self.take_page(page, generation, since) {
            Ok(Some(next)) => PageState::Next(Some(next)),
            Ok(None) => PageState::Over,
            Err(error) => PageState::Fail(error),
        }
    }

    /// Takes the items of a page, and returns the cursor of the next one.
    fn take_page(
        &mut self,
        page: Page<T>,
        generation: u64,
        since: Instant,
    ) -> Result<Option<String>, Error> {
        let (caller, progress, method) = (&self.caller, &mut self.progress, T::METHOD.name());
        progress.usage.add_page(caller, method, since, page.body.weight)?;
        progress.usage.add_items(caller, method, page.items().len())?;
        progress.generation.get_or_insert(generation);
        let new = page.items().iter().filter(|item| progress.is_new(&***item)).cloned().collect();
        self.items = T::filter_usable(new, caller, generation).into_iter();
        progress.usage.next_cursor(caller, method, page.next)
    }
}

impl ListProgress {
    fn is_new<T: Listable>(&mut self, item: &T) -> bool {
        let Some(name) = item.name() else { return true };
        let is_new = self.names.insert(name.to_owned());
        if !is_new {
            tracing::warn!(name, "ignored a listed item with a duplicate name");
        }
        is_new
    }
}

/// Fetches one page. Also returns the generation of the list when it was requested.
async fn fetch<T: Listable>(
    caller: ClientHandle,
    cursor: Option<String>,
    limits: CallLimits,
) -> Result<(Page<T>, u64), Error> {
    let generation = caller.server_state().generation(T::METHOD);
    let spec = CallSpec { cursor, ..CallSpec::new(T::METHOD) };
    match run::run(&caller, CallKind::Call(spec), CallHooks::default(), limits).await? {
        CallResult::Reply(reply) => {
            T::page(reply).map(|it| (it, generation)).ok_or_else(unexpected)
        }
        _ => Err(unexpected()),
    }
}

impl<T: Listable> Stream for PagedList<T> {
    type Item = Result<Arc<T>, CallError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_item(cx).map(|item| item.map(|item| item.map_err(CallError::of_outcome)))
    }
}

impl<T: Listable> fmt::Debug for PagedList<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagedList").field("method", &T::METHOD).finish_non_exhaustive()
    }
}
