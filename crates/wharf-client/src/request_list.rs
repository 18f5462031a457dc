//! [`RequestList`]: reads all pages of a list that a method of an extension returns.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    future::poll_fn,
    mem,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
    vec,
};

use futures_core::Stream;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, value::RawValue};
use wharf_model::{BoxFuture, Error, ErrorKind, FailureOrigin};

use crate::{
    CallError, ClientHandle,
    call::{protocol_violation::protocol_violation, total_timeout},
    pagination::{TIME_LIMIT_OPTION, limit_error},
};

/// Items of a paginated list, over all pages, from a method that the protocol does not define. Read like a
/// [`PagedList`](crate::PagedList), with the same limits: `CallOptions::{pages, items, listed, total}`.
///
/// ```
/// # mod wharf { pub use wharf_client::*; pub use wharf_client::ClientHandle as Client; }
/// use wharf::{Client, args};
///
/// # async fn example(client: Client) -> Result<(), wharf_model::Error> {
/// // Reads the array `boats` of each page, and requests the page of each `nextCursor`.
/// let mut boats = client.request_list::<String>("harbour/boats", args! { pier: 3 }, "boats");
/// while let Some(boat) = boats.next().await {
///     println!("{}", boat?);
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "a list requests nothing until it is read"]
pub struct RequestList<T> {
    caller: ClientHandle,
    method: String,
    params: Map<String, Value>,
    member: String,
    items: vec::IntoIter<T>,
    state: RequestPageState,
    progress: RequestListUsage,
}

enum RequestPageState {
    /// The page of this cursor is next.
    Next(Option<String>),
    Fetching(BoxFuture<Result<Box<RawValue>, CallError>>, Instant),
    Over,
    Fail(CallError),
}

/// Consumption of the list's limits.
#[derive(Default)]
struct RequestListUsage {
    pages: usize,
    items: usize,
    bytes: usize,
    time: Duration,
    cursors: HashSet<String>,
}

impl<T: DeserializeOwned> RequestList<T> {
    pub(crate) fn new(
        caller: &ClientHandle,
        method: String,
        params: impl Serialize,
        member: String,
    ) -> Self {
        let (params, state) = match serde_json::to_value(params) {
            Ok(Value::Object(params)) => (params, RequestPageState::Next(None)),
            Ok(Value::Null) => (Map::new(), RequestPageState::Next(None)),
            _ => (Map::new(), RequestPageState::Fail(not_an_object())),
        };
        let (caller, items) = (caller.clone(), Vec::new().into_iter());
        RequestList {
            caller,
            method,
            params,
            member,
            items,
            state,
            progress: RequestListUsage::default(),
        }
    }

    /// Returns the next item; `None` after the last.
    pub async fn next(&mut self) -> Option<Result<T, CallError>> {
        poll_fn(|cx| self.poll_item(cx)).await
    }

    /// Reads all items.
    ///
    /// # Errors
    /// If a page cannot be read, or the list exceeds a limit.
    pub async fn all(mut self) -> Result<Vec<T>, CallError> {
        let mut all = Vec::new();
        while let Some(item) = self.next().await {
            all.push(item?);
        }
        Ok(all)
    }

    fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, CallError>>> {
        loop {
            if let Some(item) = self.items.next() {
                return Poll::Ready(Some(Ok(item)));
            }
            self.state = match mem::replace(&mut self.state, RequestPageState::Over) {
                RequestPageState::Over => return Poll::Ready(None),
                RequestPageState::Fail(error) => return Poll::Ready(Some(Err(error))),
                RequestPageState::Next(cursor) => self.fetch_page(cursor),
                RequestPageState::Fetching(mut fetching, since) => match fetching.as_mut().poll(cx)
                {
                    Poll::Ready(Ok(page)) => self.add_page(&page, since),
                    Poll::Ready(Err(error)) => RequestPageState::Fail(error),
                    Poll::Pending => {
                        self.state = RequestPageState::Fetching(fetching, since);
                        return Poll::Pending;
                    }
                },
            };
        }
    }

    /// Requests a page, within the time that the earlier pages have left.
    fn fetch_page(&self, cursor: Option<String>) -> RequestPageState {
        let total = self.caller.options().total;
        let left = total.saturating_sub(self.progress.time);
        if left.is_zero() {
            let error = total_timeout::out_of_time(total, TIME_LIMIT_OPTION);
            return RequestPageState::Fail(CallError::of_outcome(error));
        }
        let mut params = self.params.clone();
        params.extend(cursor.map(|cursor| ("cursor".to_owned(), cursor.into())));
        let call = self.caller.request_as::<Box<RawValue>>(&*self.method, params).total(left);
        RequestPageState::Fetching(call.into_future(), self.caller.timer().now())
    }

    fn add_page(&mut self, page: &RawValue, since: Instant) -> RequestPageState {
        self.progress.time += self.caller.timer().now().saturating_duration_since(since);
        match self.read_page(page.get()) {
            Ok(Some(next)) => RequestPageState::Next(Some(next)),
            Ok(None) => RequestPageState::Over,
            Err(error) => RequestPageState::Fail(CallError::of_outcome(error)),
        }
    }

    /// Takes the items of a page, and returns the cursor of the next one.
    fn read_page(&mut self, page: &str) -> Result<Option<String>, Error> {
        let exceeded = |what: String| Err(limit_error(&self.method, what));
        let (options, progress) = (self.caller.options(), &mut self.progress);
        progress.pages += 1;
        progress.bytes = progress.bytes.saturating_add(page.len());
        if progress.bytes > options.listed {
            return exceeded(format!("more than {} bytes", options.listed));
        }
        let invalid = |error: serde_json::Error| {
            protocol_violation(&format!("sent an invalid page of `{}` ({error})", self.method))
        };
        let members: BTreeMap<String, &RawValue> = serde_json::from_str(page).map_err(invalid)?;
        let member = |name: &str| members.get(name).map_or("null", |json| json.get());
        let items: Vec<T> = serde_json::from_str(member(&self.member)).map_err(invalid)?;
        let next: Option<String> = serde_json::from_str(member("nextCursor")).map_err(invalid)?;
        progress.items = progress.items.saturating_add(items.len());
        if progress.items > options.items {
            return exceeded(format!("more than {} items", options.items));
        }
        self.items = items.into_iter();
        match &next {
            Some(_) if progress.pages >= options.pages => {
                exceeded(format!("more than {} pages", options.pages))
            }
            Some(next) if !progress.cursors.insert(next.clone()) => {
                exceeded("a cursor that it sent before".into())
            }
            _ => Ok(next),
        }
    }
}

// No item is pinned.
impl<T> Unpin for RequestList<T> {}

impl<T: DeserializeOwned> Stream for RequestList<T> {
    type Item = Result<T, CallError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_item(cx)
    }
}

impl<T> fmt::Debug for RequestList<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestList").field("method", &self.method).finish_non_exhaustive()
    }
}

fn not_an_object() -> CallError {
    let error = Error::new(ErrorKind::InvalidParams)
        .with_message("Params must be a JSON object, such as `args! { name: value }`");
    CallError::of_outcome(error.from_client(FailureOrigin::Usage))
}
