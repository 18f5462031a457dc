//! Known failures with their reasons. A check listed here must fail, so that fixed entries are removed.

use crate::server_under_test::{Era, Over, Server, Subject};

pub(crate) struct Gap {
    server: Server,
    /// Era; `None` for all.
    era: Option<Era>,
    /// Transport; `None` for all.
    over: Option<Over>,
    checks: &'static [&'static str],
    pub(crate) why: &'static str,
}

const GAPS: &[Gap] = &[
    Gap {
        server: Server::FastMcp,
        era: None,
        over: None,
        checks: &["hears_that_a_resource_changed"],
        why: "fastmcp serves neither resources/subscribe nor subscriptions/listen",
    },
    Gap {
        server: Server::FastMcp,
        era: Some(Era::Modern),
        over: None,
        checks: &["hears_that_the_tools_changed"],
        why: "fastmcp does not serve subscriptions/listen",
    },
    Gap {
        server: Server::Python,
        era: Some(Era::Legacy),
        over: None,
        checks: &["hears_that_the_tools_changed"],
        why: "MCPServer of mcp does not say to legacy clients that its tools may change",
    },
];

pub(crate) fn find(subject: &Subject, check: &str) -> Option<&'static Gap> {
    GAPS.iter().find(|gap| {
        gap.server == subject.server
            && gap.era.is_none_or(|era| era == subject.era)
            && gap.over.is_none_or(|over| over == subject.over)
            && gap.checks.contains(&check)
    })
}
