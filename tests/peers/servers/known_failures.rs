//! Known failures with their reasons. A check listed here must fail, so that fixed entries are removed.

use crate::server_under_test::{Era, Server, TestTarget, TestTransport};

pub(crate) struct KnownFailure {
    server: Server,
    /// Era; `None` for all.
    era: Option<Era>,
    /// Transport; `None` for all.
    over: Option<TestTransport>,
    checks: &'static [&'static str],
    pub(crate) why: &'static str,
}

const KNOWN_FAILURES: &[KnownFailure] = &[
    KnownFailure {
        server: Server::FastMcp,
        era: None,
        over: None,
        checks: &["notifies_that_a_resource_changed"],
        why: "fastmcp serves neither resources/subscribe nor subscriptions/listen",
    },
    KnownFailure {
        server: Server::FastMcp,
        era: Some(Era::Modern),
        over: None,
        checks: &["notifies_that_the_tools_changed"],
        why: "fastmcp does not serve subscriptions/listen",
    },
    KnownFailure {
        server: Server::Python,
        era: Some(Era::Legacy),
        over: None,
        checks: &["notifies_that_the_tools_changed"],
        why: "MCPServer of mcp does not say to legacy clients that its tools may change",
    },
];

pub(crate) fn find(target: &TestTarget, check: &str) -> Option<&'static KnownFailure> {
    KNOWN_FAILURES.iter().find(|gap| {
        gap.server == target.server
            && gap.era.is_none_or(|era| era == target.era)
            && gap.over.is_none_or(|over| over == target.over)
            && gap.checks.contains(&check)
    })
}
