//! URL elicitations that a call requires before it can succeed (`UrlElicitationRequired`).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::Deserialize;
use wharf_model::{
    BoxFuture, ClientCapability, ClientRequest, ElicitAction, ElicitResult, ElicitUrl, Error,
    ErrorKind,
};

use crate::{
    ClientHandle,
    call::{backoff, total_timeout},
    server_requests::dispatch,
};

/// Delay before the call is retried without `notifications/elicitation/complete`: not every server
/// sends it.
const FIRST_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Maximum number of URL elicitations in one error.
const MAX_ELICITATIONS: usize = 16;

/// URL elicitations of one call, so that each is presented once.
#[derive(Default)]
pub(crate) struct UrlElicitations {
    opened: BTreeSet<String>,
    tries: usize,
}

#[derive(Deserialize)]
struct RequiredElicitations {
    elicitations: Vec<ElicitUrl>,
}

impl UrlElicitations {
    /// Presents the URLs that `error` names to the user, and waits until they may have been
    /// completed.
    pub(crate) async fn open(
        &mut self,
        caller: &ClientHandle,
        error: Error,
        idle: Duration,
    ) -> Result<(), Error> {
        let data = error.data.as_deref().cloned().unwrap_or_default();
        let can = caller.peer().capabilities.has(&ClientCapability::ElicitationUrl);
        let pages = match serde_json::from_value::<RequiredElicitations>(data) {
            Ok(RequiredElicitations { elicitations }) if can && !elicitations.is_empty() => {
                elicitations
            }
            _ => return Err(error),
        };
        if pages.len() > MAX_ELICITATIONS || self.tries >= caller.options().rounds {
            let message = "The server requires too many URL elicitations before this call";
            return Err(error.with_message(message));
        }
        // Without an id, the URL identifies the elicitation.
        let name = |page: &ElicitUrl| page.id.clone().unwrap_or_else(|| page.url.clone());
        let names: BTreeSet<String> = pages.iter().map(name).collect();
        let new = pages.into_iter().filter(|page| self.opened.insert(name(page)));
        let pending = new.map(|page| {
            (name(&page), dispatch::put(caller.handler(), ClientRequest::ElicitUrl(Box::new(page))))
        });
        let answers = dispatch::all(pending.collect()).await?;
        let answers: BTreeMap<String, ElicitResult> = serde_json::from_str(&answers)?;
        if answers.values().any(|answer| answer.action != ElicitAction::Accept) {
            return Err(
                error.with_message("The user declined the URL elicitation that this call requires")
            );
        }
        let pause = backoff::backoff(FIRST_RETRY_DELAY, self.tries, idle);
        self.tries += 1;
        let done: BoxFuture<Result<(), Error>> = Box::pin(caller.server_state().completed(names));
        match total_timeout::within(caller.timer(), pause, total_timeout::IDLE, done).await {
            Err(error) if error.kind != ErrorKind::RequestTimeout => Err(error),
            _ => Ok(()),
        }
    }
}
