//! Resources and resource templates.

use std::{fmt, sync::Arc, time::Duration};

use wharf_model::{Annotations, CacheHint, ResourceInfo, Role};

use crate::{
    handler::{
        AsyncEndpoint, BlockingEndpoint, Endpoint, Handler, InlineEndpoint, PlainHandler,
        extract::{Declaration, Extract},
        into_completion::Completer,
        into_contents::{ContentsConverter, IntoContents},
    },
    primitives::{
        common_setters::described, completion::CompleterTable, extension::ProtocolExtension,
    },
};

/// Resource, or all resources of one URI template, read by a function.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; }
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use wharf::{Args, Resource};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Note { name: String }
///
/// let readme = Resource::new("demo://readme", async || "# Demo").mime("text/markdown");
/// let notes = Resource::new("demo://notes/{name}", async |Args(note): Args<Note>| note.name)
///     .complete_from("name", ["shopping", "standup"]);
/// # let _ = (readme, notes);
/// ```
#[must_use]
pub struct Resource {
    /// Contains the template as `uri` until the server is built.
    pub(crate) info: ResourceInfo,
    pub(crate) endpoint: Arc<dyn Endpoint>,
    pub(crate) declaration: Declaration,
    pub(crate) cache: Option<CacheHint>,
    pub(crate) completions: CompleterTable,
    pub(crate) timeout: Option<Duration>,
    pub(crate) scopes: Vec<String>,
    pub(crate) extensions: Vec<fn() -> ProtocolExtension>,
}

/// Metadata of a read result besides its contents.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadMetadata {
    pub(crate) mime: Option<Arc<str>>,
    pub(crate) cache: Option<CacheHint>,
}

impl Resource {
    /// Creates a resource from an async function.
    pub fn new<A, F>(uri_or_template: impl Into<String>, handler: F) -> Self
    where
        F: Handler<A>,
        F::Output: IntoContents,
        A: Extract + 'static,
    {
        Resource::make::<A>(
            uri_or_template.into(),
            AsyncEndpoint::<F, A, ContentsConverter>::endpoint(handler),
        )
    }

    /// Creates a resource from a plain function that may block; it runs on its own thread.
    pub fn blocking<A, F>(uri_or_template: impl Into<String>, handler: F) -> Self
    where
        F: PlainHandler<A>,
        F::Output: IntoContents,
        A: Extract + Send + 'static,
    {
        Resource::make::<A>(
            uri_or_template.into(),
            BlockingEndpoint::<F, A, ContentsConverter>::endpoint(handler),
        )
    }

    /// Creates a resource from a plain function that runs in place: it must be fast and must not
    /// block.
    pub fn inline<A, F>(uri_or_template: impl Into<String>, handler: F) -> Self
    where
        F: PlainHandler<A>,
        F::Output: IntoContents,
        A: Extract + Send + 'static,
    {
        Resource::make::<A>(
            uri_or_template.into(),
            InlineEndpoint::<F, A, ContentsConverter>::endpoint(handler),
        )
    }

    fn make<A: Extract>(uri: String, endpoint: Arc<dyn Endpoint>) -> Self {
        let mut declaration = Declaration::default();
        A::declare(&mut declaration);
        Resource {
            info: ResourceInfo::new(uri.clone(), uri),
            endpoint,
            declaration,
            cache: None,
            completions: CompleterTable::default(),
            timeout: None,
            scopes: Vec::new(),
            extensions: Vec::new(),
        }
    }

    /// Returns the resource as clients receive it; of a template, `uri` is the template.
    #[must_use]
    pub fn info(&self) -> &ResourceInfo {
        &self.info
    }

    /// Returns the URI or the URI template.
    #[must_use]
    pub fn uri(&self) -> &str {
        &self.info.uri
    }

    /// Returns whether this is a resource template.
    #[must_use]
    pub fn is_template(&self) -> bool {
        self.info.uri.contains('{')
    }

    /// Sets the name; the URI is the default.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.info.name = name.into();
        self
    }

    /// Sets the media type. Without it, text is `text/plain`, bytes are
    /// `application/octet-stream` and JSON is `application/json` when read.
    pub fn mime(mut self, mime: impl Into<String>) -> Self {
        self.info.mime_type = Some(mime.into());
        self
    }

    /// Sets the intended audience.
    pub fn audience(self, role: Role) -> Self {
        self.annotate(|hints| hints.audience.push(role))
    }

    /// Sets the priority, from 0 (optional) to 1 (effectively required).
    pub fn priority(self, priority: f64) -> Self {
        self.annotate(|hints| hints.priority = Some(priority))
    }

    /// Sets the time of the last modification, in ISO 8601.
    pub fn last_modified(self, when: impl Into<String>) -> Self {
        self.annotate(|hints| hints.last_modified = Some(when.into()))
    }

    /// Sets the size in bytes. A template has none.
    pub fn size(mut self, bytes: u64) -> Self {
        self.info.size = Some(bytes);
        self
    }

    /// Sets the cache hint of read results; by default they are not cached.
    pub fn cache(mut self, hint: CacheHint) -> Self {
        self.cache = Some(hint);
        self
    }

    /// Completes a template's variable with a plain or an async function.
    pub fn complete<M>(
        mut self,
        parameter: impl Into<String>,
        completer: impl Completer<M>,
    ) -> Self {
        self.completions.add(parameter.into(), completer.into_completer());
        self
    }

    /// Completes a template's variable from these values.
    pub fn complete_from(
        mut self,
        parameter: impl Into<String>,
        values: impl IntoIterator<Item: Into<String>>,
    ) -> Self {
        self.completions.add_values(parameter.into(), values);
        self
    }

    fn annotate(mut self, set: impl FnOnce(&mut Annotations)) -> Self {
        set(self.info.annotations.get_or_insert_default());
        self
    }
}

described!(Resource, "resource");

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resource").field("info", &self.info).finish_non_exhaustive()
    }
}
