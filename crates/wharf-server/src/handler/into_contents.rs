//! Return types of resources.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Serialize;
use wharf_model::{Error, ErrorKind, Outcome, ReadResult, Reply, ResourceContents};

use crate::{
    handler::{
        ReturnConverter,
        extract::{CallInput, Incoming},
        into_tool::{Json, unserializable},
        tool_error::IntoToolError,
    },
    primitives::resource::ReadMetadata,
};

/// Type that a resource can return.
///
/// The media type of text is `text/plain`, of bytes `application/octet-stream` and of [`Json`]
/// `application/json`, unless the resource sets one.
#[diagnostic::on_unimplemented(
    message = "a resource cannot return `{Self}`",
    label = "not the contents of a resource",
    note = "return text, bytes, `Json<T>`, `ResourceContents` or a list of them, `ReadResult`, an \
            `Option` (`None` is not found), or a `Result` of these whose error is a `ToolError` or any `std::error::Error`"
)]
pub trait IntoContents {
    /// Converts to the contents of `uri`; `mime` is the media type that the resource sets.
    fn into_contents(self, uri: &str, mime: Option<&str>) -> Result<ReadResult, Error>;
}

macro_rules! contents {
    ($constructor:ident $default:literal: $($T:ty)*) => {
        $(impl IntoContents for $T {
            fn into_contents(self, uri: &str, mime: Option<&str>) -> Result<ReadResult, Error> {
                let contents = ResourceContents::$constructor(uri, self);
                Ok(contents.mime_type(mime.unwrap_or($default)).into())
            }
        })*
    };
}

contents! { text "text/plain": String &'static str Box<str> Cow<'static, str> }
contents! { blob "application/octet-stream": Vec<u8> &'static [u8] Bytes }

impl<T: Serialize> IntoContents for Json<T> {
    fn into_contents(self, uri: &str, mime: Option<&str>) -> Result<ReadResult, Error> {
        let json = serde_json::to_string(&self.0).map_err(|error| unserializable(&error))?;
        let contents = ResourceContents::text(uri, json);
        Ok(contents.mime_type(mime.unwrap_or("application/json")).into())
    }
}

impl IntoContents for ResourceContents {
    fn into_contents(self, uri: &str, mime: Option<&str>) -> Result<ReadResult, Error> {
        ReadResult::from(self).into_contents(uri, mime)
    }
}

impl IntoContents for Vec<ResourceContents> {
    fn into_contents(self, uri: &str, mime: Option<&str>) -> Result<ReadResult, Error> {
        ReadResult::new(self).into_contents(uri, mime)
    }
}

impl IntoContents for ReadResult {
    fn into_contents(mut self, uri: &str, mime: Option<&str>) -> Result<ReadResult, Error> {
        // A part with another URI may have another media type.
        for part in self.contents.iter_mut().filter(|part| part.uri == uri) {
            if part.mime_type.is_none() {
                part.mime_type = mime.map(str::to_owned);
            }
        }
        Ok(self)
    }
}

impl<T: IntoContents> IntoContents for Option<T> {
    fn into_contents(self, uri: &str, mime: Option<&str>) -> Result<ReadResult, Error> {
        self.ok_or_else(|| Error::resource_not_found(uri))?.into_contents(uri, mime)
    }
}

impl<T: IntoContents, E: IntoToolError> IntoContents for Result<T, E> {
    fn into_contents(self, uri: &str, mime: Option<&str>) -> Result<ReadResult, Error> {
        self.map_err(|error| Error::from(error.into_tool_error()))?.into_contents(uri, mime)
    }
}

pub(crate) struct ContentsConverter {
    uri: String,
    metadata: ReadMetadata,
}

impl<R: IntoContents> ReturnConverter<R> for ContentsConverter {
    fn for_call(incoming: &Incoming<'_>) -> Self {
        let request = &incoming.request;
        let mut metadata = match incoming.input {
            CallInput::Resource(_, metadata) => metadata.clone(),
            _ => ReadMetadata::default(),
        };
        // A result that depends on input responses must not be cached: they are not part of the
        // cache key.
        if request.input_responses().is_some() || request.request_state().is_some() {
            metadata.cache = None;
        }
        ContentsConverter { uri: request.target().into_owned(), metadata }
    }

    fn convert(self, returned: R) -> Outcome {
        match returned.into_contents(&self.uri, self.metadata.mime.as_deref()) {
            Ok(mut result) => {
                result.cache = result.cache.or(self.metadata.cache);
                Reply::Read(result).into()
            }
            Err(error) if error.kind == ErrorKind::InternalError && error.data.is_none() => {
                error.with_data(serde_json::json!({ "uri": self.uri })).into()
            }
            Err(error) => error.into(),
        }
    }
}
