//! Tables of the protocol revisions: dates, requests and features.

use std::{fmt, str::FromStr};

use wharf_model::{Direction, Error, ErrorKind, METHODS, Method};

/// Protocol revision, identified by its date.
///
/// ```
/// use wharf_wire::{Era, Revision};
///
/// let revision: Revision = "2025-06-18".parse().unwrap();
/// assert!(revision < Revision::NEWEST);
/// assert_eq!(revision.era(), Era::Legacy);
/// assert_eq!(Revision::ALL.last(), Some(&Revision::NEWEST));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Revision(u8);

/// Group of revisions: before and after requests became self-contained.
///
/// ```
/// use wharf_wire::{Era, Revision};
///
/// assert_eq!(Revision::newest(Era::Legacy), Revision::NEWEST_LEGACY);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// Every request is self-contained: no handshake, no session.
    Modern,
    /// A connection begins with an `initialize` handshake.
    Legacy,
}

impl Era {
    /// Returns the era that options call `modern` or `legacy`.
    ///
    /// ```
    /// use wharf_wire::Era;
    ///
    /// assert_eq!(Era::from_name("legacy"), Some(Era::Legacy));
    /// assert_eq!(Era::from_name("2025-06-18"), None);
    /// ```
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "modern" => Some(Era::Modern),
            "legacy" => Some(Era::Legacy),
            _ => None,
        }
    }
}

/// 2024-11-05: first revision.
pub(crate) const R2024_11_05: Revision = Revision(0);
/// 2025-03-26: tool annotations, audio, batches.
pub(crate) const R2025_03_26: Revision = Revision(1);
/// 2025-06-18: titles, links, structured content, elicitation.
pub(crate) const R2025_06_18: Revision = Revision(2);
/// 2025-11-25: icons, URL elicitation, tools in sampling.
pub(crate) const R2025_11_25: Revision = Revision(3);
/// 2026-07-28: requests are self-contained (stateless).
pub(crate) const R2026_07_28: Revision = Revision(4);

/// 2027-01-15: made-up revision of the unit tests, which show that a revision needs rows only.
#[cfg(test)]
pub(crate) const R2027_01_15: Revision = Revision(5);

const DATES: &[&str] = &[
    "2024-11-05",
    "2025-03-26",
    "2025-06-18",
    "2025-11-25",
    "2026-07-28",
    #[cfg(test)]
    "2027-01-15",
];

impl Revision {
    /// Every revision, oldest first.
    pub const ALL: [Revision; DATES.len()] = [
        R2024_11_05,
        R2025_03_26,
        R2025_06_18,
        R2025_11_25,
        R2026_07_28,
        #[cfg(test)]
        R2027_01_15,
    ];
    /// Newest revision.
    pub const NEWEST: Revision = Revision::ALL[DATES.len() - 1];
    /// Newest revision with an `initialize` handshake.
    pub const NEWEST_LEGACY: Revision = R2025_11_25;
    /// First revision whose requests carry version, identity and capabilities.
    pub(crate) const FIRST_MODERN: Revision = R2026_07_28;
    /// Revision of a legacy HTTP request without a version header.
    pub const HTTP_DEFAULT: Revision = R2025_03_26;

    /// Returns the date of the revision.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        DATES[self.index()]
    }

    /// Returns the newest revision of `era`.
    #[must_use]
    pub fn newest(era: Era) -> Revision {
        match era {
            Era::Modern => Revision::NEWEST,
            Era::Legacy => Revision::NEWEST_LEGACY,
        }
    }

    /// Returns the era of the revision.
    #[must_use]
    pub fn era(self) -> Era {
        if self.is_modern() { Era::Modern } else { Era::Legacy }
    }

    /// Returns whether requests carry version, identity and capabilities.
    pub(crate) fn is_modern(self) -> bool {
        self >= Revision::FIRST_MODERN
    }

    /// Returns the name of the request by which clients read the server's description.
    pub(crate) const fn discover_name(self) -> &'static str {
        if self.0 < Revision::FIRST_MODERN.0 { "initialize" } else { "server/discover" }
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl FromStr for Revision {
    type Err = Error;

    fn from_str(date: &str) -> Result<Self, Error> {
        // Newest first: most requests name a new one.
        let found = Revision::ALL.into_iter().rev().find(|revision| revision.as_str() == date);
        found.ok_or_else(|| Error::new(ErrorKind::UnsupportedProtocolVersion))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Revisions that a client may negotiate.
///
/// ```
/// use wharf_wire::{AllowedRevisions, Era, Revision};
///
/// let legacy = AllowedRevisions::Era(Era::Legacy);
/// assert!(legacy.has("2025-06-18".parse().unwrap()));
/// assert_eq!(legacy.newest(Era::Legacy), Some(Revision::NEWEST_LEGACY));
/// assert_eq!(legacy.newest(Era::Modern), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AllowedRevisions {
    /// Every revision.
    #[default]
    Any,
    /// One revision.
    One(Revision),
    /// The revisions of one era.
    Era(Era),
}

impl AllowedRevisions {
    /// Returns whether `revision` may be negotiated.
    #[must_use]
    pub fn has(self, revision: Revision) -> bool {
        match self {
            AllowedRevisions::Any => true,
            AllowedRevisions::One(only) => revision == only,
            AllowedRevisions::Era(era) => revision.era() == era,
        }
    }

    /// Returns the newest revision of `era` that may be negotiated.
    #[must_use]
    pub fn newest(self, era: Era) -> Option<Revision> {
        Revision::ALL.into_iter().rfind(|it| it.era() == era && self.has(*it))
    }
}

/// Inclusive range of revisions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RevisionRange {
    first: Revision,
    last: Revision,
}

impl RevisionRange {
    pub(crate) const fn has(self, revision: Revision) -> bool {
        self.first.0 <= revision.0 && revision.0 <= self.last.0
    }

    /// Returns whether the range has only modern revisions.
    pub(crate) fn is_modern(self) -> bool {
        self.first.is_modern()
    }
}

impl fmt::Display for RevisionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{} to {}", self.first, self.last),
        }
    }
}

pub(crate) const fn since(first: Revision) -> RevisionRange {
    RevisionRange { first, last: Revision::NEWEST }
}

pub(crate) const fn until(last: Revision) -> RevisionRange {
    RevisionRange { first: R2024_11_05, last }
}

pub(crate) const fn only(revision: Revision) -> RevisionRange {
    RevisionRange { first: revision, last: revision }
}

pub(crate) const ALWAYS: RevisionRange = since(R2024_11_05);
pub(crate) const LEGACY: RevisionRange = until(Revision::NEWEST_LEGACY);
pub(crate) const MODERN: RevisionRange = since(Revision::FIRST_MODERN);

/// Kind of a client request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// Call of the model's canonical protocol.
    Call(Method),
    Initialize,
    Ping,
    SetLevel,
    Subscribe,
    Unsubscribe,
}

/// Requests that a client may send, and the revisions that have them.
const REQUEST_KINDS: &[(&str, RequestKind, RevisionRange)] = &[
    ("tools/call", RequestKind::Call(Method::CallTool), ALWAYS),
    ("tools/list", RequestKind::Call(Method::ListTools), ALWAYS),
    ("resources/read", RequestKind::Call(Method::ReadResource), ALWAYS),
    ("resources/list", RequestKind::Call(Method::ListResources), ALWAYS),
    ("resources/templates/list", RequestKind::Call(Method::ListTemplates), ALWAYS),
    ("prompts/get", RequestKind::Call(Method::GetPrompt), ALWAYS),
    ("prompts/list", RequestKind::Call(Method::ListPrompts), ALWAYS),
    ("completion/complete", RequestKind::Call(Method::Complete), ALWAYS),
    ("tasks/get", RequestKind::Call(Method::GetTask), since(R2025_11_25)),
    ("tasks/update", RequestKind::Call(Method::UpdateTask), since(R2026_07_28)),
    ("tasks/cancel", RequestKind::Call(Method::CancelTask), since(R2025_11_25)),
    ("tasks/result", RequestKind::Call(Method::TaskResult), only(R2025_11_25)),
    ("tasks/list", RequestKind::Call(Method::ListTasks), only(R2025_11_25)),
    ("server/discover", RequestKind::Call(Method::Discover), since(R2026_07_28)),
    ("subscriptions/listen", RequestKind::Call(Method::Listen), since(R2026_07_28)),
    ("initialize", RequestKind::Initialize, LEGACY),
    ("ping", RequestKind::Ping, LEGACY),
    ("logging/setLevel", RequestKind::SetLevel, LEGACY),
    ("resources/subscribe", RequestKind::Subscribe, LEGACY),
    ("resources/unsubscribe", RequestKind::Unsubscribe, LEGACY),
    #[cfg(test)]
    ("berths/assign", RequestKind::Call(Method::Custom), since(R2027_01_15)),
];

/// A call of the model without a row does not compile.
const _: () = {
    let mut index = 0;
    while index < METHODS.len() {
        let info = &METHODS[index];
        let needs_row =
            matches!(info.direction, Direction::Call) && !matches!(info.method, Method::Custom);
        assert!(!needs_row || has_row(info.method), "a method has no row in `REQUEST_KINDS`");
        index += 1;
    }
};

const fn has_row(method: Method) -> bool {
    let mut index = 0;
    while index < REQUEST_KINDS.len() {
        if let RequestKind::Call(other) = REQUEST_KINDS[index].1
            && other as usize == method as usize
        {
            return true;
        }
        index += 1;
    }
    false
}

impl RequestKind {
    /// Returns the request named `name` and the revisions that have it.
    pub(crate) fn named(name: &str) -> Option<(RequestKind, RevisionRange)> {
        REQUEST_KINDS.iter().find(|row| row.0 == name).map(|row| (row.1, row.2))
    }

    /// Returns the name of the request in `revision`, if the revision has it.
    pub(crate) fn name(self, revision: Revision) -> Option<&'static str> {
        let row = REQUEST_KINDS.iter().find(|row| row.1 == self && row.2.has(revision));
        row.map(|row| row.0)
    }
}

/// Feature that only some revisions have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feature {
    /// JSON-RPC batches.
    Batches,
    /// Audio content.
    Audio,
    /// A progress notification may carry a message.
    ProgressMessages,
    /// Completion is a separate capability.
    CompletionCapability,
    /// Links to resources as content.
    Links,
    /// Structured content beside a tool's content, if it is an object.
    Structured,
    /// A completion request carries the arguments completed so far.
    CompletionContext,
    /// Elicitation with forms.
    Elicitation,
    /// Elicitation has modes, multi-select and defaults.
    ElicitationModes,
    /// A URL elicitation has an id, and may be required by an error.
    ElicitationIds,
    /// Tools in sampling, and several content items in a sampling message.
    SamplingTools,
    /// Streams of a session start with a priming event, and the server may close them early.
    StreamPolling,
    /// Invalid tool arguments are reported as a tool result for the model.
    ArgumentErrorsAsResults,
    /// Schemas and structured content of any type.
    AnyJson,
    /// An HTTP header names the revision.
    VersionHeader,
    /// Tasks that the caller requests, with the result as a separate call.
    TaskRequests,
    /// A handshake opens a session, which has state on the server.
    Sessions,
    /// The server sends requests of its own to the client.
    ServerRequests,
    /// HTTP headers repeat the method, the target and marked arguments of a request.
    RoutingHeaders,
    /// A call may end with input requests, and is retried with the responses.
    InputRequests,
    /// A result names its type.
    ResultTypes,
    /// Results carry hints for caches.
    CacheHints,
    /// Every result carries the name and version of the server.
    ServerInfo,
}

const FEATURES: [(Feature, RevisionRange); 23] = [
    (Feature::Batches, only(R2025_03_26)),
    (Feature::Audio, since(R2025_03_26)),
    (Feature::ProgressMessages, since(R2025_03_26)),
    (Feature::CompletionCapability, since(R2025_03_26)),
    (Feature::Links, since(R2025_06_18)),
    (Feature::Structured, since(R2025_06_18)),
    (Feature::CompletionContext, since(R2025_06_18)),
    (Feature::Elicitation, since(R2025_06_18)),
    (Feature::ElicitationModes, since(R2025_11_25)),
    (Feature::ElicitationIds, only(R2025_11_25)),
    (Feature::SamplingTools, since(R2025_11_25)),
    (Feature::StreamPolling, only(R2025_11_25)),
    (Feature::ArgumentErrorsAsResults, since(R2025_11_25)),
    (Feature::AnyJson, since(R2026_07_28)),
    (Feature::VersionHeader, since(R2025_06_18)),
    (Feature::TaskRequests, only(R2025_11_25)),
    (Feature::Sessions, LEGACY),
    (Feature::ServerRequests, LEGACY),
    (Feature::RoutingHeaders, since(R2026_07_28)),
    (Feature::InputRequests, since(R2026_07_28)),
    (Feature::ResultTypes, since(R2026_07_28)),
    #[cfg(not(test))]
    (Feature::CacheHints, since(R2026_07_28)),
    // The made-up revision of the tests removes them.
    #[cfg(test)]
    (Feature::CacheHints, only(R2026_07_28)),
    (Feature::ServerInfo, since(R2026_07_28)),
];

impl Feature {
    /// Returns the revisions that have the feature.
    pub(crate) const fn revisions(self) -> RevisionRange {
        FEATURES[self as usize].1
    }
}

impl Revision {
    pub(crate) const fn has(self, feature: Feature) -> bool {
        feature.revisions().has(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_in_order() {
        for (index, row) in FEATURES.iter().enumerate() {
            assert_eq!(row.0 as usize, index, "{:?}", row.0);
        }
        for (index, revision) in Revision::ALL.into_iter().enumerate() {
            assert_eq!(revision.index(), index);
            assert_eq!(revision.as_str().parse(), Ok(revision));
        }
        assert!(DATES.is_sorted());
        assert!("2025-06-19".parse::<Revision>().is_err());
    }

    #[test]
    fn no_request_of_the_protocol_can_be_a_custom_method() {
        for (name, _, revisions) in REQUEST_KINDS {
            // The made-up revision of the tests has a method that the protocol does not define.
            let is_published =
                (Revision::ALL.iter()).any(|it| *it < R2027_01_15 && revisions.has(*it));
            assert_eq!(Method::is_defined(name), is_published, "{name}");
        }
    }

    #[test]
    fn rows_of_calls_have_the_names_of_the_model() {
        for (name, kind, revisions) in REQUEST_KINDS {
            match kind {
                RequestKind::Call(Method::Custom) => assert!(revisions.has(R2027_01_15)),
                RequestKind::Call(method) => assert_eq!(*name, method.name()),
                _ => {}
            }
        }
    }
}
