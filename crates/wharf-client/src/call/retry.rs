//! Rules of retries: which errors and which tools allow a call to be sent again, and after which delay.

use std::time::Duration;

use wharf_model::{Error, ErrorKind, FailureOrigin, Method, TaskRequest};

use crate::{
    ClientHandle,
    cache::tool_schemas,
    call::{backoff, find_tool::find_tool, run::CallRun},
    task::request_mode,
};

/// First and longest delay before a request is sent again to an overloaded server.
const OVERLOAD_DELAY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Maximum number of retries after the connection broke or was not made, and the first delay.
const MAX_RETRIES: usize = 2;
const RETRY_DELAY: Duration = Duration::from_millis(100);

impl CallRun<'_> {
    /// Prepares a retry after `error`, or returns the error.
    pub(super) async fn recover(&mut self, error: Error) -> Result<(), Error> {
        match error.kind {
            // The caller has to change something.
            _ if error.origin() == Some(FailureOrigin::Usage) => Err(error),
            ErrorKind::HeaderMismatch if self.can_list_again() => self.list_again().await,
            ErrorKind::UrlElicitationRequired => {
                self.url_elicitations.open(self.caller, error, self.idle).await
            }
            ErrorKind::ConnectionClosed | ErrorKind::TransportError => self.retry_lost(error).await,
            _ if request_mode::may_require_task(
                self.caller,
                self.spec.method,
                self.tasking,
                &error,
            ) =>
            {
                self.as_task(error).await
            }
            _ => Err(error),
        }
    }

    /// Requests a task if the server lists the tool as task-only. The failed call ran nothing.
    async fn as_task(&mut self, error: Error) -> Result<(), Error> {
        if !self.runs_only_as_task().await {
            return Err(error);
        }
        self.tasking = TaskRequest::Wanted(None);
        Ok(())
    }

    fn can_list_again(&self) -> bool {
        let is_tool = self.spec.method == Method::CallTool;
        is_tool && !self.listed_again && self.caller.transport().sends_param_headers()
    }

    /// Lists the tool again after `HeaderMismatch`: the server expects other `Mcp-Param-*` headers.
    async fn list_again(&mut self) -> Result<(), Error> {
        self.listed_again = true;
        find_tool(self.caller, self.spec.target.as_deref().unwrap_or_default()).await.map(drop)
    }

    async fn retry_lost(&mut self, mut error: Error) -> Result<(), Error> {
        let called = self.spec.target.as_deref().unwrap_or_default();
        let repeatable = match self.spec.method {
            // The server did not get it.
            _ if error.is_unsent() => true,
            Method::CallTool => is_repeatable(self.caller, called).await,
            // Its effect is unknown.
            Method::Custom => false,
            _ => true,
        };
        if !repeatable {
            let advice = format!(
                "{}; the call was not sent again, because `{}` is not known to be safe to repeat",
                error.message,
                wharf_model::excerpt(called),
            );
            error.message = advice.into();
            return Err(error);
        }
        if self.retries >= MAX_RETRIES {
            error.message = format!("{}; tried {} times", error.message, MAX_RETRIES + 1).into();
            return Err(error);
        }
        backoff::sleep(
            self.caller.timer(),
            backoff::backoff(RETRY_DELAY, self.retries, RETRY_DELAY * 4),
        )
        .await;
        self.retries += 1;
        Ok(())
    }
}

/// Returns whether the tool declares itself safe to call again. Lists it if it was not listed or if
/// the list has changed, because a restarted server may be another version.
async fn is_repeatable(caller: &ClientHandle, tool: &str) -> bool {
    if let Some(known) = caller.server_state().tool(tool) {
        return known.is_repeatable();
    }
    // A tool listed while the list changed is not cached, but counts here.
    let listed = find_tool(caller, tool).await;
    listed.is_ok_and(|tool| tool.is_some_and(|info| tool_schemas::is_repeatable(&info)))
}

/// Delay before a retry, after the server deferred the call `times` times.
pub(crate) fn overload_delay(times: usize) -> Duration {
    backoff::backoff(OVERLOAD_DELAY.0, times, OVERLOAD_DELAY.1)
}
