//! Parts of a server that is being built, for the checks of extensions.

use std::mem;

use crate::{
    builder::{Part, error::BuildError},
    primitives::{prompt::Prompt, resource::Resource, tool::Tool, uri_template::UriTemplate},
};

/// Parts of a server that is being built. An extension checks and completes them
/// ([`ProtocolExtension::prepare`](crate::ProtocolExtension::prepare)).
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod server { pub use super::*; } }
/// use wharf::{Tool, server::{ProtocolExtension, Router}};
///
/// let audited = ProtocolExtension::new("com.example/audited").prepare(|parts| {
///     let silent: Vec<_> = parts.tools().filter(|it| it.info().description.is_none()).collect();
///     let names: Vec<_> = silent.iter().map(|it| it.info().name.clone()).collect();
///     for name in names {
///         parts.problem(format!("tool `{name}`"), "it has no description: auditors read it");
///     }
/// });
/// let router = Router::builder().extension(audited).add(Tool::new("ping", async || "pong"));
/// assert!(router.build().unwrap_err().to_string().contains("no description"));
/// ```
#[derive(Debug)]
pub struct ServerParts<'a> {
    pub(crate) parts: &'a mut Vec<Part>,
    pub(crate) problems: &'a mut BuildError,
}

impl ServerParts<'_> {
    /// Returns the tools.
    pub fn tools(&self) -> impl Iterator<Item = &Tool> {
        self.parts.iter().filter_map(|part| match part {
            Part::Tool(tool) => Some(tool),
            _ => None,
        })
    }

    /// Returns the resources and the resource templates.
    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.parts.iter().filter_map(|part| match part {
            Part::Resource(resource) => Some(resource),
            _ => None,
        })
    }

    /// Returns the prompts.
    pub fn prompts(&self) -> impl Iterator<Item = &Prompt> {
        self.parts.iter().filter_map(|part| match part {
            Part::Prompt(prompt) => Some(prompt),
            _ => None,
        })
    }

    /// Returns the resource that is read at `uri`: the one with this URI, or a template that matches it.
    #[must_use]
    pub fn resource_at(&self, uri: &str) -> Option<&Resource> {
        let exact = self.resources().find(|it| !it.is_template() && it.uri() == uri);
        let matches = |it: &&Resource| {
            let template = UriTemplate::parse(it.uri());
            it.is_template() && template.is_ok_and(|template| template.matches(uri).is_some())
        };
        exact.or_else(|| self.resources().find(matches))
    }

    /// Replaces each tool by the one that `edit` makes of it.
    pub fn edit_tools(&mut self, mut edit: impl FnMut(Tool) -> Tool) {
        let edited = mem::take(self.parts).into_iter().map(|part| match part {
            Part::Tool(tool) => Part::Tool(edit(tool)),
            other => other,
        });
        *self.parts = edited.collect();
    }

    /// Adds a problem, so that building the server fails. `item` names the part, as in "tool `add`", and `text` has
    /// the problem and its solution.
    pub fn problem(&mut self, item: impl Into<String>, text: impl Into<String>) {
        self.problems.add(item, text);
    }

    /// Logs a warning about a part that works, but not well.
    pub fn warn(&self, item: &str, text: &str) {
        tracing::warn!(item, "check this part of the server: {text}");
    }
}
