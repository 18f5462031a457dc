//! Builders of a gateway and of its upstream servers.

use std::{collections::BTreeMap, fmt, time::Duration};

use crate::{
    Gateway, NamePrefix, UpstreamConnector,
    filter::ToolFilter,
    names::{NameRules, sanitized},
    uris::uri_prefix,
};

/// Length of public names with a prefix: hosts add a prefix of their own and accept 64 characters.
const NAME_BUDGET: usize = 46;
const MAX_NAME_BUDGET: usize = 64;
const MIN_NAME_BUDGET: usize = 16;
const PAGE_SIZE: usize = 1000;

/// Builder of a [`Gateway`].
///
/// ```
/// # mod wharf { pub use wharf_client::ClientHandle; pub mod gateway { pub use wharf_gateway::*; } }
/// use wharf::gateway::{Gateway, NamePrefix, UpstreamServer};
///
/// # fn example(github: wharf::ClientHandle, files: wharf::ClientHandle) -> Result<(), wharf::gateway::GatewayError> {
/// let gateway = Gateway::builder()
///     .names(NamePrefix::Always)
///     .upstream("github", github)
///     .upstream("files", UpstreamServer::new(files).read_only(true).deny(["read_secret*"]))
///     .build()?;
/// # let _ = gateway;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct GatewayBuilder {
    pub(crate) upstreams: Vec<(String, UpstreamServer)>,
    names: NamePrefix,
    separator: String,
    budget: usize,
    pub(crate) instructions: Option<String>,
    pub(crate) page_size: usize,
}

impl GatewayBuilder {
    pub(crate) fn new() -> Self {
        GatewayBuilder {
            upstreams: Vec::new(),
            names: NamePrefix::default(),
            separator: "_".into(),
            budget: NAME_BUDGET,
            instructions: None,
            page_size: PAGE_SIZE,
        }
    }

    /// Adds an upstream server under a name: an [`UpstreamServer`] with options, or anything to connect to. Lists have the
    /// order in which servers are added.
    pub fn upstream(
        mut self,
        name: impl Into<String>,
        upstream: impl Into<UpstreamServer>,
    ) -> Self {
        self.upstreams.push((name.into(), upstream.into()));
        self
    }

    /// Sets which names of tools and prompts have a prefix; [`NamePrefix::Auto`] by default.
    pub fn names(self, names: NamePrefix) -> Self {
        GatewayBuilder { names, ..self }
    }

    /// Sets the text between prefix and name; `_` by default.
    pub fn separator(self, separator: impl Into<String>) -> Self {
        GatewayBuilder { separator: separator.into(), ..self }
    }

    /// Sets the maximum length of names with a prefix, from 16 to 64; 46 by default, because hosts add a prefix of their
    /// own. The middle of a longer name is replaced by a hash.
    pub fn name_length(self, characters: usize) -> Self {
        GatewayBuilder { budget: characters.clamp(MIN_NAME_BUDGET, MAX_NAME_BUDGET), ..self }
    }

    /// Sets the instructions for models, in place of those of the upstream servers.
    pub fn instructions(self, instructions: impl Into<String>) -> Self {
        GatewayBuilder { instructions: Some(instructions.into()), ..self }
    }

    /// Sets the maximum number of items in a page of a list; 1000 by default.
    pub fn page_size(self, items: usize) -> Self {
        GatewayBuilder { page_size: items.max(1), ..self }
    }

    /// Builds the gateway. It connects to the upstream servers with its first request, which needs a Tokio runtime.
    ///
    /// # Errors
    /// If there is no upstream server, or if two have the same prefix.
    pub fn build(self) -> Result<Gateway, GatewayError> {
        if self.upstreams.is_empty() {
            return Err(GatewayError(
                "the gateway has no upstream server: add one with `upstream`".into(),
            ));
        }
        if self.separator != sanitized(&self.separator) {
            let separator = &self.separator;
            return Err(GatewayError(format!(
                "the separator {separator:?} is not usable in names: use ASCII letters, digits, `_` and `-`"
            )));
        }
        let mut prefixes = BTreeMap::new();
        for (name, upstream) in &self.upstreams {
            if name.is_empty() {
                return Err(GatewayError("an upstream server has an empty name: name it".into()));
            }
            for prefix in [upstream.prefix_for(name), uri_prefix(&upstream.prefix_for(name))] {
                if let Some(other) = prefixes.insert(prefix.to_ascii_lowercase(), name)
                    && !std::ptr::eq(other, name)
                {
                    return Err(GatewayError(format!(
                        "the upstream servers {other:?} and {name:?} have the same prefix {prefix:?}: set another one \
                         with `UpstreamServer::prefix`"
                    )));
                }
            }
        }
        Ok(Gateway::new(self))
    }

    pub(crate) fn rules(&self) -> NameRules {
        let prefixed = match self.names {
            NamePrefix::Always => true,
            NamePrefix::Never => false,
            NamePrefix::Auto => self.upstreams.len() > 1,
        };
        NameRules { prefixed, separator: self.separator.clone(), budget: self.budget }
    }
}

/// Upstream server with its options.
///
/// ```
/// # mod wharf { pub use wharf_client::ClientHandle; pub mod gateway { pub use wharf_gateway::*; } }
/// use std::time::Duration;
/// use wharf::gateway::UpstreamServer;
///
/// # fn example(client: wharf::ClientHandle) {
/// let upstream = UpstreamServer::new(client).prefix("gh").allow(["get_*"]).grace(Duration::from_secs(60));
/// # let _ = upstream;
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct UpstreamServer {
    pub(crate) connector: UpstreamConnector,
    prefix: Option<String>,
    pub(crate) filter: ToolFilter,
    pub(crate) list_timeout: Duration,
    pub(crate) idle: Duration,
    pub(crate) total: Duration,
    pub(crate) grace: Duration,
}

impl UpstreamServer {
    /// Creates an upstream server with the default options.
    #[must_use]
    pub fn new(connector: impl Into<UpstreamConnector>) -> Self {
        UpstreamServer {
            connector: connector.into(),
            prefix: None,
            filter: ToolFilter::default(),
            list_timeout: Duration::from_secs(5),
            idle: Duration::from_secs(60),
            total: Duration::from_secs(600),
            grace: Duration::from_secs(300),
        }
    }

    /// Sets the prefix of the server's names; by default its name in the gateway. Characters that hosts do not accept
    /// are replaced by `_`.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// Offers only tools whose name at the server matches one of these patterns: `*` matches any characters, `?` one.
    #[must_use]
    pub fn allow(mut self, patterns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.filter.allow.extend(patterns.into_iter().map(Into::into));
        self
    }

    /// Does not offer tools whose name at the server matches one of these patterns, even if `allow` does.
    #[must_use]
    pub fn deny(mut self, patterns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.filter.deny.extend(patterns.into_iter().map(Into::into));
        self
    }

    /// Sets whether only tools are offered that declare `readOnlyHint`.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.filter.read_only = read_only;
        self
    }

    /// Sets how long the first list of a client waits for this server; 5 s by default. Later ones are answered from
    /// memory.
    #[must_use]
    pub fn list_timeout(self, list_timeout: Duration) -> Self {
        UpstreamServer { list_timeout, ..self }
    }

    /// Sets the maximum time of a call without activity; 60 s by default.
    #[must_use]
    pub fn timeout(self, idle: Duration) -> Self {
        UpstreamServer { idle, ..self }
    }

    /// Sets the maximum time of a call; 10 minutes by default.
    #[must_use]
    pub fn total(self, total: Duration) -> Self {
        UpstreamServer { total, ..self }
    }

    /// Sets how long the tools, prompts and resources of the server stay listed while it is unavailable; 5 minutes by
    /// default.
    #[must_use]
    pub fn grace(self, grace: Duration) -> Self {
        UpstreamServer { grace, ..self }
    }

    pub(crate) fn prefix_for(&self, name: &str) -> String {
        sanitized(self.prefix.as_deref().unwrap_or(name))
    }
}

impl<C: Into<UpstreamConnector>> From<C> for UpstreamServer {
    fn from(connector: C) -> Self {
        UpstreamServer::new(connector)
    }
}

/// Problem with the configuration of a gateway.
///
/// ```
/// # mod wharf { pub mod gateway { pub use wharf_gateway::*; } }
/// use wharf::gateway::Gateway;
///
/// let error = Gateway::builder().build().err().map(|error| error.to_string());
/// assert!(error.is_some_and(|text| text.contains("no upstream server")));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayError(String);

impl fmt::Display for GatewayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for GatewayError {}
