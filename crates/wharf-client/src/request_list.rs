//! [`RequestList`]: reads all pages of a list that a method of an extension returns.

use std::{
    fmt,
    future::poll_fn,
    mem,
    pin::Pin,
    task::{Context, Poll},
    time::Instant,
    vec,
};

use futures_core::Stream;
use serde::{
    Deserializer as _, Serialize,
    de::{DeserializeOwned, IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Map, Value, value::RawValue};
use wharf_model::{
    BoxFuture, Error, ErrorKind, FailureOrigin, MAX_PAGE_VALUES, count_values, weight_of_page,
};

use crate::{
    CallError, ClientHandle,
    call::protocol_violation::protocol_violation,
    list_limits::{ListUsage, exceeded},
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
    usage: ListUsage,
}

enum RequestPageState {
    /// The page of this cursor is next.
    Next(Option<String>),
    Fetching(BoxFuture<Result<Box<RawValue>, CallError>>, Instant),
    Over,
    Fail(CallError),
}

/// Members of a page: its items, and the cursor of the next page.
struct PageMembers<'a, 'de> {
    /// Name of the member with the items.
    member: &'a str,
    items: Option<&'de RawValue>,
    next: Option<&'de RawValue>,
}

impl<'de> Visitor<'de> for PageMembers<'_, 'de> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(mut self, mut members: M) -> Result<Self, M::Error> {
        while let Some(name) = members.next_key::<String>()? {
            if name == self.member {
                self.items = Some(members.next_value()?);
            } else if name == "nextCursor" {
                self.next = Some(members.next_value()?);
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(self)
    }
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
        RequestList { caller, method, params, member, items, state, usage: ListUsage::default() }
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
        let left = match self.usage.time_left(&self.caller) {
            Ok(left) => left,
            Err(error) => return RequestPageState::Fail(CallError::of_outcome(error)),
        };
        let mut params = self.params.clone();
        params.extend(cursor.map(|cursor| ("cursor".to_owned(), cursor.into())));
        let call = self.caller.request_as::<Box<RawValue>>(&*self.method, params).total(left);
        RequestPageState::Fetching(call.into_future(), self.caller.timer().now())
    }

    fn add_page(&mut self, page: &RawValue, since: Instant) -> RequestPageState {
        match self.read_page(page.get(), since) {
            Ok(Some(next)) => RequestPageState::Next(Some(next)),
            Ok(None) => RequestPageState::Over,
            Err(error) => RequestPageState::Fail(CallError::of_outcome(error)),
        }
    }

    /// Takes the items of a page, and returns the cursor of the next one.
    fn read_page(&mut self, page: &str, since: Instant) -> Result<Option<String>, Error> {
        let (caller, method) = (&self.caller, &*self.method);
        // Before the page is parsed: a tree takes many times the memory of its text.
        let values = count_values(page);
        if values > MAX_PAGE_VALUES {
            return Err(exceeded(method, MAX_PAGE_VALUES, "values on one page"));
        }
        self.usage.add_page(caller, method, since, weight_of_page(page.len(), values))?;
        let invalid = |error: serde_json::Error| {
            protocol_violation(&format!("sent an invalid page of `{method}` ({error})"))
        };
        let members = PageMembers { member: &self.member, items: None, next: None };
        let mut page = serde_json::Deserializer::from_str(page);
        let PageMembers { items, next, .. } = page.deserialize_map(members).map_err(invalid)?;
        let items = items.map_or("null", RawValue::get);
        let items: Vec<T> = serde_json::from_str(items).map_err(invalid)?;
        let next = next.map_or("null", RawValue::get);
        let next: Option<String> = serde_json::from_str(next).map_err(invalid)?;
        self.usage.add_items(caller, method, items.len())?;
        self.items = items.into_iter();
        self.usage.next_cursor(caller, method, next)
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
