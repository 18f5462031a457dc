//! Limits of paginated lists: `CallOptions::{pages, items, listed, total}`, over all pages.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use wharf_model::{Error, ErrorKind, FailureOrigin, TimeoutKind};

use crate::{ClientHandle, call::total_timeout};

/// The option that limits the time of all pages together.
const TIME_LIMIT_OPTION: total_timeout::TimeoutOption = (TimeoutKind::Total, "CallOptions::total");

/// Consumption of a list's limits by the pages read so far.
#[derive(Default)]
pub(crate) struct ListUsage {
    pub(crate) pages: usize,
    items: usize,
    weight: usize,
    /// Time that the server has taken so far.
    time: Duration,
    cursors: HashSet<String>,
}

impl ListUsage {
    /// Returns the time that the earlier pages have left.
    pub(crate) fn time_left(&self, caller: &ClientHandle) -> Result<Duration, Error> {
        let total = caller.options().total;
        let left = total.saturating_sub(self.time);
        match left.is_zero() {
            true => Err(total_timeout::out_of_time(total, TIME_LIMIT_OPTION)),
            false => Ok(left),
        }
    }

    /// Counts a page that was requested at `since`, and its memory.
    pub(crate) fn add_page(
        &mut self,
        caller: &ClientHandle,
        method: &str,
        since: Instant,
        weight: usize,
    ) -> Result<(), Error> {
        self.pages += 1;
        self.time += caller.timer().now().saturating_duration_since(since);
        self.weight = self.weight.saturating_add(weight);
        let most = caller.options().listed;
        if self.weight > most { Err(exceeded(method, most, "bytes")) } else { Ok(()) }
    }

    /// Counts the items of a page.
    pub(crate) fn add_items(
        &mut self,
        caller: &ClientHandle,
        method: &str,
        items: usize,
    ) -> Result<(), Error> {
        self.items = self.items.saturating_add(items);
        let most = caller.options().items;
        if self.items > most { Err(exceeded(method, most, "items")) } else { Ok(()) }
    }

    /// Returns the cursor of the next page, if another page may be requested.
    pub(crate) fn next_cursor(
        &mut self,
        caller: &ClientHandle,
        method: &str,
        cursor: Option<String>,
    ) -> Result<Option<String>, Error> {
        let most = caller.options().pages;
        match &cursor {
            Some(_) if self.pages >= most => Err(exceeded(method, most, "pages")),
            Some(next) if !self.cursors.insert(next.clone()) => {
                Err(limit_error(method, "a cursor that it sent before"))
            }
            _ => Ok(cursor),
        }
    }
}

/// Error for a list with more than a limit allows.
pub(crate) fn exceeded(method: &str, most: usize, what: &str) -> Error {
    limit_error(method, &format!("more than {most} {what}"))
}

fn limit_error(method: &str, what: &str) -> Error {
    let message = format!(
        "{method}: the server sent {what}, so reading the list was stopped; \
         raise `CallOptions::{{pages, items, listed}}` to read more"
    );
    let error = Error::new(ErrorKind::ContentTooLarge).with_message(message);
    error.from_client(FailureOrigin::Protocol)
}
