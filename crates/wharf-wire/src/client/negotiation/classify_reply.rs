//! Reads the replies to a negotiation: whether the server is modern or legacy, and the supported
//! revisions.

use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use wharf_model::{
    Discovery, Error, ErrorKind, Implementation, Meta, Method, Outcome, Reply, excerpt, has_at_most,
};

use crate::client::negotiation::ClientCodec;
use crate::{
    CallId, Revision,
    client::{ServerMessage, read_object},
    server::encode::SERVER_INFO,
    versions::error_codes,
};

/// Maximum number of versions that are read from a server's list.
const MAX_VERSIONS: usize = 100;

/// Maximum number of values in a list of versions; longer lists are not read.
const MAX_VERSION_LIST_VALUES: usize = 1_000;

/// Classification of the reply to `server/discover`.
pub(super) enum DiscoverReply {
    /// The server is modern and supports these revisions.
    Modern(Vec<String>),
    /// The server is modern, but does not support the revision of the request.
    OtherVersions(Vec<String>),
    /// The server is modern and refuses the request.
    Rejected,
    /// Not the reply of a modern server.
    Legacy,
}

/// Classifies a reply by the features that only modern servers have; others may reply with anything.
pub(super) fn classify_discovery(result: Result<&str, &Error>) -> DiscoverReply {
    #[derive(Deserialize)]
    struct Discovered<'a> {
        #[serde(borrow, rename = "supportedVersions")]
        versions: &'a RawValue,
    }
    // No server supports so many revisions that the list exceeds the limit.
    let versions = |it: Discovered<'_>| {
        let json =
            Some(it.versions.get()).filter(|json| has_at_most(json, MAX_VERSION_LIST_VALUES))?;
        serde_json::from_str::<Vec<Value>>(json).ok()
    };
    match result {
        Ok(json) => match read_object::<Discovered<'_>>(json).ok().and_then(versions) {
            Some(it) => DiscoverReply::Modern(texts(&it)),
            None => DiscoverReply::Legacy,
        },
        Err(error) => match modern_kind(error) {
            Some(ErrorKind::UnsupportedProtocolVersion) => {
                DiscoverReply::OtherVersions(supported(error))
            }
            Some(_) => DiscoverReply::Rejected,
            None => DiscoverReply::Legacy,
        },
    }
}

/// Returns the error kind if only modern servers use the code.
fn modern_kind(error: &Error) -> Option<ErrorKind> {
    let code = error.code.unwrap_or_else(|| error_codes::code(error.kind, Revision::NEWEST));
    error_codes::modern_only(code)
}

/// Sets the kind of an error whose code only modern servers use, however it was decoded.
pub(super) fn as_modern(mut error: Error) -> Error {
    if let Some(kind) = modern_kind(&error) {
        error.kind = kind;
    }
    error
}

/// Returns the supported versions in an error.
pub(super) fn supported(error: &Error) -> Vec<String> {
    let listed = error.data.as_deref().and_then(|data| data["supported"].as_array());
    listed.map(|versions| texts(versions)).unwrap_or_default()
}

fn texts(versions: &[Value]) -> Vec<String> {
    let texts = versions.iter().filter_map(Value::as_str);
    texts.take(MAX_VERSIONS).map(|version| excerpt(version).into_owned()).collect()
}

/// Returns the newest known one of `versions` that `fits`.
pub(super) fn newest(versions: &[String], fits: impl Fn(Revision) -> bool) -> Option<Revision> {
    let known = versions.iter().filter_map(|version| version.parse().ok());
    known.filter(|revision| fits(*revision)).max()
}

/// Returns the reply to `id` in the body of an HTTP response.
pub(super) fn reply_in(
    body: &[u8],
    id: &CallId,
    codec: &ClientCodec,
) -> Option<Result<bytestring::ByteString, Error>> {
    let messages = codec.decode(bytes::Bytes::copy_from_slice(body)).ok()?;
    messages.into_iter().find_map(|one| match one {
        ServerMessage::Reply { id: Some(of), result } if of == *id => Some(result),
        // A server that could not read the request cannot return its id.
        ServerMessage::Reply { id: None, result: Err(error) } => Some(Err(error)),
        _ => None,
    })
}

/// Reads identity and capabilities of a server from the result of `server/discover`.
pub(super) fn discovered(
    codec: &ClientCodec,
    json: &str,
) -> Result<(Implementation, Discovery), Error> {
    #[derive(Deserialize)]
    struct Fields {
        #[serde(rename = "_meta")]
        meta: Option<Meta>,
    }
    let fields: Option<Fields> = read_object(json).ok();
    let info = fields.and_then(|it| it.meta).and_then(|mut meta| meta.remove(SERVER_INFO));
    Ok((implementation(info), discovery(codec, json)?))
}

/// Reads the negotiated version and the identity of a server from the result of `initialize`.
pub(super) fn handshake(json: &str) -> Option<(String, Implementation)> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Fields<'a> {
        protocol_version: String,
        #[serde(borrow)]
        server_info: Option<&'a RawValue>,
    }
    let Fields { protocol_version, server_info } = read_object(json).ok()?;
    let info = server_info.and_then(|raw| serde_json::from_str(raw.get()).ok());
    Some((protocol_version, implementation(info)))
}

pub(super) fn discovery(codec: &ClientCodec, json: &str) -> Result<Discovery, Error> {
    match codec.result(Method::Discover, json)? {
        Outcome::Complete(Reply::Discover(discovery)) => Ok(*discovery),
        _ => Ok(Discovery::default()),
    }
}

/// Reads the server's identity; a missing name or version becomes empty.
fn implementation(info: Option<Value>) -> Implementation {
    let Some(Value::Object(mut fields)) = info else { return Implementation::default() };
    for needed in ["name", "version"] {
        fields.entry(needed).or_insert_with(|| "".into());
    }
    serde_json::from_value(fields.into()).unwrap_or_default()
}
