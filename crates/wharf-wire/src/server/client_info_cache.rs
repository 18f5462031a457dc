//! Client info of legacy sessions: size limits, and a cache that shares equal values between sessions.

use std::{
    borrow::Cow,
    collections::VecDeque,
    fmt,
    hash::{BuildHasher, Hash, Hasher, RandomState},
    sync::{Arc, Weak},
};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;
use wharf_model::{ClientCapabilities, ClientInfo, Error, Implementation, JsonObject, Lock, Meta};

use crate::{
    Revision,
    json::field_spans::MessageField,
    server::message::{Message, invalid_field},
    versions::revision::Feature,
};

/// Capacity of the cache: servers have many sessions, but of few client programs.
const CACHE_CAPACITY: usize = 16;
/// Maximum number of unknown fields of `clientInfo` that are kept.
const MAX_UNKNOWN_FIELDS: usize = 16;
/// Approximate memory of a JSON value in a tree beside its text, and of an object with its first field.
const JSON_VALUE_BYTES: usize = 72;
const JSON_OBJECT_BYTES: usize = 640;

/// Cache of recent client info. Entries live as long as a session uses them.
#[derive(Debug, Default)]
pub(crate) struct ClientInfoCache {
    entries: Lock<VecDeque<(u64, Weak<ClientInfo>)>>,
    hasher: RandomState,
}

impl ClientInfoCache {
    /// Returns the shared copy of an equal value, or stores this one.
    pub(crate) fn intern(&self, client: ClientInfo) -> Arc<ClientInfo> {
        let digest = self.digest(&client);
        let with_digest = |(known, it): &(u64, Weak<ClientInfo>)| {
            if *known == digest { it.upgrade() } else { None }
        };
        let alike: Vec<_> = self.lock().iter().filter_map(with_digest).collect();
        // Compares without holding the lock, which all clients share.
        if let Some(same) = alike.into_iter().find(|it| **it == client) {
            return same;
        }
        let client = Arc::new(client);
        let mut entries = self.lock();
        entries.retain(|(_, it)| it.strong_count() > 0);
        entries.truncate(CACHE_CAPACITY - 1);
        entries.push_front((digest, Arc::downgrade(&client)));
        client
    }

    fn digest(&self, client: &ClientInfo) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        if let Some(Implementation { name, version, title, description, .. }) = &client.info {
            (name, version, title, description).hash(&mut hasher);
        }
        let ClientCapabilities { tasks, extensions, experimental, .. } = &client.capabilities;
        (tasks, extensions, experimental).hash(&mut hasher);
        hasher.finish()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<(u64, Weak<ClientInfo>)>> {
        self.entries.lock()
    }
}

/// Reads client info and capabilities as far as the revision has them; returns them with their approximate
/// size, at most `max_bytes`. Optional parts that do not fit are dropped: descriptions and experimental
/// capabilities. Extensions that do not fit keep their names.
///
/// # Errors
/// If the name or version of the client takes more than a quarter of `max_bytes`.
pub(crate) fn read_client_info(
    message: &Message,
    revision: Revision,
    max_bytes: usize,
) -> Result<(ClientInfo, usize), Error> {
    let client =
        message.raw(MessageField::ClientInfo).and_then(|json| serde_json::from_str(json).ok());
    let client: RawClientInfo<'_> = client.unwrap_or_default();
    let name = required(client.name, max_bytes / 4, "clientInfo.name")?;
    let version = required(client.version, max_bytes / 4, "clientInfo.version")?;
    let named = [&name, &version].into_iter().flatten().map(String::len).sum();
    let mut remaining = RemainingBytes(max_bytes.saturating_sub(named));
    let declared =
        message.raw(MessageField::Capabilities).and_then(|json| serde_json::from_str(json).ok());
    let capabilities = remaining.capabilities(declared.unwrap_or_default(), revision);
    let info = match (name, version) {
        (Some(name), Some(version)) => {
            Some(remaining.describe(Implementation::new(name, version), &client))
        }
        _ => None,
    };
    Ok((ClientInfo::new(info, capabilities), max_bytes - remaining.0))
}

/// Number of bytes that may still be kept.
struct RemainingBytes(usize);

impl RemainingBytes {
    fn reserve(&mut self, bytes: usize) -> bool {
        let left = self.0.checked_sub(bytes);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }

    fn capabilities(
        &mut self,
        mut client: ClientCapabilities,
        revision: Revision,
    ) -> ClientCapabilities {
        if !revision.has(Feature::Elicitation) {
            client.elicitation = None;
        }
        if let Some(elicitation) = &mut client.elicitation
            && !revision.has(Feature::ElicitationModes)
        {
            (elicitation.form, elicitation.url) = (true, false);
        }
        if let Some(sampling) = &mut client.sampling
            && !revision.has(Feature::SamplingTools)
        {
            // In these revisions every sampling client may be asked to include context.
            (sampling.tools, sampling.context) = (false, true);
        }
        if client.tasks.as_ref().is_some_and(|tasks| !self.reserve(tasks.as_str().len())) {
            client.tasks = Some(JsonObject::default());
        }
        if !self.reserve(client.extensions.as_str().len()) {
            client.extensions = self.extension_names(&client.extensions);
        }
        if !self.reserve(client.experimental.as_str().len()) {
            client.experimental = JsonObject::default();
        }
        client
    }

    /// Returns the names of the extensions without their settings, as many as fit.
    fn extension_names(&mut self, extensions: &JsonObject) -> JsonObject {
        let extension_names = extensions.keys().into_iter();
        // Each name has quotes, a colon, an empty object and a comma; a quote may have been an escape.
        let fit = extension_names.take_while(|name| self.reserve(2 * name.len() + 6));
        fit.map(|name| (name, Meta::new().into())).collect::<Meta>().into()
    }

    /// Adds the descriptive fields that fit.
    fn describe(&mut self, mut info: Implementation, client: &RawClientInfo<'_>) -> Implementation {
        let mut kept = |raw: Option<&RawValue>| {
            let text = text(raw?)?;
            self.reserve(text.len()).then_some(text)
        };
        info.title = kept(client.title);
        info.website_url = kept(client.website_url);
        info.description = kept(client.description);
        if let Some(icons) = client.icons.filter(|it| self.reserve(tree_bytes(it.get()))) {
            info.icons = serde_json::from_str(icons.get()).unwrap_or_default();
        }
        for (name, value) in &client.unknown {
            if self.reserve(name.len() + JSON_OBJECT_BYTES + tree_bytes(value.get()))
                && let Ok(value) = serde_json::from_str::<serde_json::Value>(value.get())
            {
                info.extra.insert(&**name, value);
            }
        }
        info
    }
}

/// Returns an upper estimate of the memory of a JSON tree: punctuation within strings counts too.
fn tree_bytes(json: &str) -> usize {
    let mark = |byte| match byte {
        b'{' => JSON_OBJECT_BYTES,
        b'[' | b',' | b':' => JSON_VALUE_BYTES,
        _ => 0,
    };
    json.len() + json.bytes().map(mark).sum::<usize>()
}

fn text(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

/// Decodes a string that must fit.
fn required(
    raw: Option<&RawValue>,
    max_bytes: usize,
    field: &str,
) -> Result<Option<String>, Error> {
    let text = raw.and_then(text);
    match text.as_ref().is_some_and(|text| text.len() > max_bytes) {
        true => Err(invalid_field(field, &format!("is too long: at most {max_bytes} bytes"))),
        false => Ok(text),
    }
}

/// Raw fields of `clientInfo`, not parsed into trees.
#[derive(Default)]
struct RawClientInfo<'a> {
    name: Option<&'a RawValue>,
    version: Option<&'a RawValue>,
    title: Option<&'a RawValue>,
    description: Option<&'a RawValue>,
    website_url: Option<&'a RawValue>,
    icons: Option<&'a RawValue>,
    unknown: Vec<(Cow<'a, str>, &'a RawValue)>,
}

#[derive(Deserialize)]
struct FieldName<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for RawClientInfo<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(ClientInfoVisitor)
    }
}

struct ClientInfoVisitor;

impl<'de> Visitor<'de> for ClientInfoVisitor {
    type Value = RawClientInfo<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawClientInfo<'de>, A::Error> {
        let mut client = RawClientInfo::default();
        while let Some((FieldName(name), value)) = map.next_entry::<FieldName<'de>, &RawValue>()? {
            let place = match &*name {
                "name" => &mut client.name,
                "version" => &mut client.version,
                "title" => &mut client.title,
                "description" => &mut client.description,
                "websiteUrl" => &mut client.website_url,
                "icons" => &mut client.icons,
                _ => {
                    if client.unknown.len() < MAX_UNKNOWN_FIELDS {
                        client.unknown.push((name, value));
                    }
                    continue;
                }
            };
            *place = Some(value).filter(|it| it.get() != "null");
        }
        Ok(client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(name: &str) -> ClientInfo {
        let info = Some(Implementation::new(name, "1"));
        ClientInfo::new(info, ClientCapabilities::default())
    }

    #[test]
    fn equal_client_info_is_stored_once_and_only_while_used() {
        let cache = ClientInfoCache::default();
        let first = cache.intern(from("a"));
        assert!(Arc::ptr_eq(&first, &cache.intern(from("a"))));
        assert!(!Arc::ptr_eq(&first, &cache.intern(from("b"))));
        let gone = Arc::downgrade(&first);
        drop(first);
        assert!(gone.upgrade().is_none());
        let kept: Vec<_> = (0..100).map(|number| cache.intern(from(&number.to_string()))).collect();
        assert_eq!(cache.lock().len(), CACHE_CAPACITY);
        assert!(Arc::ptr_eq(&kept[99], &cache.intern(from("99"))));
    }

    fn opened(info: &str, capabilities: &str) -> Result<(ClientInfo, usize), Error> {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"2025-11-25",
               "clientInfo":{info},"capabilities":{capabilities}}}}}"#
        );
        read_client_info(&Message::of(body.into(), 128), Revision::NEWEST_LEGACY, 16 << 10)
    }

    #[test]
    fn client_info_that_fits_is_kept_unchanged() {
        let info = r#"{"name":"c","version":"1","title":"C","description":"d","websiteUrl":"https://x.test",
            "icons":[{"src":"https://x.test/i.png","sizes":["48x48"]}],"build":{"commit":"abc"}}"#;
        let can = r#"{"roots":{"listChanged":true},"extensions":{"a/b":{"c":[1]}},"experimental":{"x":{}}}"#;
        let (client, kept) = opened(info, can).unwrap();
        let expected: Implementation = serde_json::from_str(info).unwrap();
        assert_eq!(client.info, Some(expected));
        assert_eq!(client.capabilities, serde_json::from_str(can).unwrap());
        assert!(kept > 200 && kept < 4096, "{kept}");
    }

    #[test]
    fn client_info_that_does_not_fit_is_dropped_except_extension_names() {
        let flood = format!("[{}0]", r#"{"":0},"#.repeat(30_000));
        let text = "x".repeat(200_000);
        let info = format!(
            r#"{{"name":"c","version":"1","description":"{text}","icons":{flood},"more":{flood},"title":"C"}}"#
        );
        let can = format!(
            r#"{{"tasks":{{"a":{flood}}},"extensions":{{"a/b":{flood},"c/d":{{}}}},"experimental":{{"x":{flood}}},
               "roots":{{"listChanged":{flood}}}}}"#
        );
        let (client, kept) = opened(&info, &can).unwrap();
        assert!(kept <= 16 << 10, "{kept}");
        assert_eq!(client.info, Some(Implementation::new("c", "1").title("C")));
        let can = client.capabilities;
        assert_eq!(can.extensions.as_str(), r#"{"a/b":{},"c/d":{}}"#);
        assert!(can.experimental.is_empty() && can.tasks.unwrap().is_empty());
        assert!(can.roots.unwrap().list_changed);
    }

    #[test]
    fn a_name_that_is_too_long_is_refused() {
        let long = format!(r#"{{"name":"{}","version":"1"}}"#, "x".repeat(5000));
        let error = opened(&long, "{}").unwrap_err();
        assert!(error.message.contains("clientInfo.name"), "{}", error.message);
        assert_eq!(opened(r#"{"version":"1"}"#, "{}").unwrap().0.info, None);
        assert_eq!(opened("7", "7").unwrap().0, ClientInfo::default());
    }
}
