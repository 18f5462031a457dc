//! Filter of the tools that a bridge offers.

use std::{future::ready, sync::Arc};

use glob::Pattern;
use wharf::{
    Error,
    model::{BoxFuture, Method, Outbox, Outcome, PageBody, Reply, Request, Service},
    observe::Observers,
};

/// Parses a pattern of tool names.
pub(super) fn name_pattern(text: &str) -> Result<Pattern, String> {
    Pattern::new(text).map_err(|error| error.msg.to_owned())
}

/// Service that hides and refuses tools by their names.
pub(super) struct ToolFilter<S> {
    inner: S,
    names: Arc<NamePatterns>,
}

struct NamePatterns {
    allow: Vec<Pattern>,
    deny: Vec<Pattern>,
}

impl NamePatterns {
    fn permit(&self, name: &str) -> bool {
        let matches = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(name));
        (self.allow.is_empty() || matches(&self.allow)) && !matches(&self.deny)
    }

    /// Removes the tools that are not permitted from a page.
    fn filtered(&self, outcome: Outcome) -> Outcome {
        let Outcome::Complete(Reply::Tools(mut page)) = outcome else { return outcome };
        let kept: Vec<_> =
            page.items().iter().filter(|tool| self.permit(&tool.name)).cloned().collect();
        if kept.len() < page.items().len() {
            page.body = Arc::new(PageBody::new(kept));
        }
        Reply::Tools(page).into()
    }
}

impl<S> ToolFilter<S> {
    /// Permits the names that match one of `allow`, or all if it is empty, except those that match one of `deny`.
    pub(super) fn new(inner: S, allow: Vec<Pattern>, deny: Vec<Pattern>) -> Self {
        ToolFilter { inner, names: Arc::new(NamePatterns { allow, deny }) }
    }
}

impl<S: Service> Service for ToolFilter<S> {
    fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        match request.method {
            Method::CallTool if !self.names.permit(&request.target()) => {
                let refusal = Error::tool_not_found(&request.target());
                Box::pin(ready(refusal.into()))
            }
            Method::ListTools => {
                let (call, names) = (self.inner.call(request, outbox), self.names.clone());
                Box::pin(async move { names.filtered(call.await) })
            }
            _ => self.inner.call(request, outbox),
        }
    }

    fn observe_upstream(&self, observers: &Observers) {
        self.inner.observe_upstream(observers);
    }

    fn has_target(&self, request: &Request) -> bool {
        self.inner.has_target(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denied_names_outrank_allowed_ones() {
        let patterns = |all: &[&str]| all.iter().map(|text| name_pattern(text).unwrap()).collect();
        for (allow, deny, permitted, refused) in [
            (&[][..], &[][..], &["a", "delete_a"][..], &[][..]),
            (
                &["get_*", "list"][..],
                &[][..],
                &["get_a", "get_", "list"][..],
                &["lists", "set_a"][..],
            ),
            (&["*_a"][..], &["delete_*"][..], &["get_a"][..], &["delete_a", "get_b"][..]),
        ] {
            let names = NamePatterns { allow: patterns(allow), deny: patterns(deny) };
            assert!(permitted.iter().all(|name| names.permit(name)), "{allow:?} {deny:?}");
            assert!(!refused.iter().any(|name| names.permit(name)), "{allow:?} {deny:?}");
        }
        assert!(name_pattern("a[").is_err());
    }
}
