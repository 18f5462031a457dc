//! JSON value that is parsed when it is first read.

use std::{
    borrow::Cow,
    fmt,
    ops::Deref,
    sync::{Arc, OnceLock},
};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, MapAccess, Visitor},
    ser::Error as _,
};
use serde_json::{Value, value::RawValue};

use crate::{Icon, Meta};

/// JSON value that is kept as text until it is read, because a tree takes up to 65 times the memory of its text
/// and most values of a peer are never read.
///
/// It dereferences to a `T`: the first use builds the tree and caches it. A tree of more than
/// [`LazyJson::MOST_VALUES`] values is not built: the value then reads as empty, and [`text`](LazyJson::text)
/// has all of it.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
/// use wharf::model::{LazyJson, Meta};
///
/// let meta: LazyJson<Meta> = serde_json::from_str(r#"{"trace":"a1"}"#).unwrap();
/// assert_eq!(meta.text(), r#"{"trace":"a1"}"#);
/// assert_eq!(meta["trace"], "a1");
/// ```
#[derive(Clone, Default)]
pub struct LazyJson<T> {
    /// None if only the tree exists.
    text: Option<Box<str>>,
    tree: OnceLock<T>,
}

/// Type that a [`LazyJson`] can be parsed into.
pub trait LazyTree: sealed::LazyTree {}

mod sealed {
    pub trait LazyTree: Default {
        const EXPECTED: &str;
        fn parse(text: &str) -> Option<Self>;
        fn fits(text: &str) -> bool;
        fn write<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error>;
    }
}

impl LazyTree for Meta {}
impl sealed::LazyTree for Meta {
    const EXPECTED: &str = "it must be a JSON object";

    fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    fn fits(text: &str) -> bool {
        text.starts_with('{')
    }

    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.serialize(to)
    }
}

// `Arc` is handled here, because serde's `rc` feature would be enabled for all crates of a build.
impl LazyTree for Arc<Value> {}
impl sealed::LazyTree for Arc<Value> {
    const EXPECTED: &str = "it must be JSON";

    fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().map(Arc::new)
    }

    fn fits(_: &str) -> bool {
        true
    }

    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(to)
    }
}

impl LazyTree for Vec<Icon> {}
impl sealed::LazyTree for Vec<Icon> {
    const EXPECTED: &str = "it must be a list of icons";

    fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    fn fits(text: &str) -> bool {
        text.starts_with('[')
    }

    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.serialize(to)
    }
}

impl<T: LazyTree> LazyJson<T> {
    /// Maximum number of values in a tree.
    pub const MOST_VALUES: usize = 250_000;

    /// Returns the JSON text; builds no tree.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        match &self.text {
            Some(text) => Cow::Borrowed(text),
            None => Cow::Owned(serde_json::to_string(self).unwrap_or_default()),
        }
    }

    /// Returns the parsed value without caching it, for callers that read many values once.
    #[must_use]
    pub fn read(&self) -> T
    where
        T: Clone,
    {
        self.tree.get().cloned().unwrap_or_else(|| self.parse())
    }

    /// Creates a value from valid JSON text of the right type.
    pub(crate) fn of_text(mut text: String) -> Self {
        // Newlines are removed, because a forwarded message must be one line.
        text.retain(|letter| !matches!(letter, '\n' | '\r'));
        LazyJson { text: Some(text.into()), tree: OnceLock::new() }
    }

    fn parse(&self) -> T {
        self.text.as_deref().and_then(Self::tree_of).unwrap_or_default()
    }

    /// Parses text; none if it has too many values, or values that a tree cannot represent.
    fn tree_of(text: &str) -> Option<T> {
        Some(text).filter(|text| has_at_most(text, Self::MOST_VALUES)).and_then(T::parse)
    }

    /// Returns whether the text cannot be parsed, so that the value reads as empty.
    fn is_unreadable(&self) -> bool {
        self.text.as_deref().is_some_and(|text| Self::tree_of(text).is_none())
    }

    fn into_tree(self) -> T {
        let LazyJson { text, tree } = self;
        let unread = || LazyJson::<T> { text, tree: OnceLock::new() }.parse();
        tree.into_inner().unwrap_or_else(unread)
    }
}

impl LazyJson<Meta> {
    /// Sets a member. Other members stay, even if they cannot be parsed.
    pub fn insert(&mut self, name: String, value: Value) {
        if self.is_unreadable() {
            self.remove_all(&[&name]);
            let text = self.text.as_deref().and_then(|it| it.strip_suffix('}')).unwrap_or("{");
            let comma = if self.is_empty_object() { "" } else { "," };
            let text = format!("{text}{comma}{}:{value}}}", Value::from(name));
            *self = LazyJson { text: Some(text.into()), tree: OnceLock::new() };
            return;
        }
        let mut tree = std::mem::take(self).into_tree();
        tree.insert(name, value);
        *self = tree.into();
    }

    /// Removes members; builds no tree.
    pub fn remove_all(&mut self, names: &[&str]) {
        let Some(text) = &self.text else {
            let mut tree = std::mem::take(self).into_tree();
            names.iter().for_each(|name| drop(tree.remove(*name)));
            *self = tree.into();
            return;
        };
        // A name that needs no escapes may still be written with some.
        if !text.contains('\\') && !names.iter().any(|name| text.contains(name)) {
            return;
        }
        let mut kept = String::from("{");
        self.each_member(|name, value| {
            if !names.contains(&name) {
                let comma = if kept.len() > 1 { "," } else { "" };
                let name = Value::from(name);
                kept.push_str(&format!("{comma}{name}:{}", value.text()));
            }
        });
        kept.push('}');
        *self = LazyJson { text: Some(kept.into()), tree: OnceLock::new() };
    }

    /// Returns whether the object has no members; builds no tree.
    #[must_use]
    pub fn is_empty_object(&self) -> bool {
        match &self.text {
            Some(text) => is_empty_text(text),
            None => self.is_empty(),
        }
    }

    /// Calls `see` with each member; builds no tree.
    pub fn each_member(&self, see: impl FnMut(&str, JsonMember<'_>)) {
        let mut see = see;
        match &self.text {
            Some(text) => {
                let mut from = serde_json::Deserializer::from_str(text);
                // Text that is not an object has no members.
                let _ = from.deserialize_map(MemberVisitor(&mut see));
            }
            None => self.iter().for_each(|(name, value)| see(name, JsonMember::Tree(value))),
        }
    }
}

impl LazyJson<Vec<Icon>> {
    /// Adds an icon.
    pub fn push(&mut self, icon: Icon) {
        let mut tree = std::mem::take(self).into_tree();
        tree.push(icon);
        *self = tree.into();
    }

    /// Returns whether the list is empty; builds no tree.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match &self.text {
            Some(text) => is_empty_text(text),
            None => (**self).is_empty(),
        }
    }
}

/// Returns whether the text is that of an empty array or object.
fn is_empty_text(text: &str) -> bool {
    text.trim_matches(['{', '}', '[', ']', ' ', '\t']).is_empty()
}

/// Member of an object, as text or as a tree.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum JsonMember<'a> {
    /// JSON text.
    Text(&'a str),
    /// A tree.
    Tree(&'a Value),
}

impl JsonMember<'_> {
    /// Returns the JSON text.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            JsonMember::Text(text) => Cow::Borrowed(text),
            JsonMember::Tree(value) => Cow::Owned(value.to_string()),
        }
    }
}

struct MemberVisitor<'s, F>(&'s mut F);

impl<'de, F: FnMut(&str, JsonMember<'_>)> Visitor<'de> for MemberVisitor<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<(), A::Error> {
        while let Some(name) = from.next_key::<Cow<'de, str>>()? {
            let value: &'de RawValue = from.next_value()?;
            (self.0)(&name, JsonMember::Text(value.get()));
        }
        Ok(())
    }
}

impl<T: LazyTree> Deref for LazyJson<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.tree.get_or_init(|| self.parse())
    }
}

impl<T> From<T> for LazyJson<T> {
    fn from(tree: T) -> Self {
        LazyJson { text: None, tree: OnceLock::from(tree) }
    }
}

impl From<Value> for LazyJson<Arc<Value>> {
    fn from(tree: Value) -> Self {
        Arc::new(tree).into()
    }
}

/// Values that cannot be parsed are equal if their texts are.
impl<T: LazyTree + PartialEq> PartialEq for LazyJson<T> {
    fn eq(&self, other: &Self) -> bool {
        if self.text.is_some() && self.text == other.text {
            return true;
        }
        let is_readable = || !self.is_unreadable() && !other.is_unreadable();
        **self == **other && (**self != T::default() || is_readable())
    }
}

impl<T: LazyTree + Eq> Eq for LazyJson<T> {}

impl<T: LazyTree> fmt::Debug for LazyJson<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl<T: LazyTree> fmt::Display for LazyJson<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl<T: LazyTree> Serialize for LazyJson<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.text {
            Some(text) => {
                let raw: &RawValue = serde_json::from_str(text).map_err(S::Error::custom)?;
                raw.serialize(to)
            }
            None => (**self).write(to),
        }
    }
}

impl<'de, T: LazyTree> Deserialize<'de> for LazyJson<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Box::<str>::from(Box::<RawValue>::deserialize(from)?);
        if !T::fits(&text) {
            return Err(D::Error::custom(T::EXPECTED));
        }
        Ok(LazyJson::of_text(text.into()))
    }
}

/// Returns whether a tree of `json` has at most `most` values.
#[must_use]
pub fn has_at_most(json: &str, most: usize) -> bool {
    // Every value but the first has at least one byte before it.
    json.len() < most || count_values(json) <= most
}

/// Counts the values of `json` by its punctuation; builds no tree.
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// assert_eq!(wharf::count_values(r#"{"a":1,"b":["x,y",2]}"#), 5);
/// ```
#[must_use]
pub fn count_values(json: &str) -> usize {
    let (mut values, mut bytes) = (1, json.bytes());
    while let Some(byte) = bytes.next() {
        match byte {
            b',' | b'[' | b'{' => values += 1,
            b'"' => {
                while let Some(byte) = bytes.next().filter(|byte| *byte != b'"') {
                    if byte == b'\\' {
                        bytes.next();
                    }
                }
            }
            _ => {}
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> LazyJson<Meta> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn text_stays_as_it_came_and_reads_as_a_tree() {
        let meta = read(r#"{"b":1.50, "a":[null]}"#);
        assert_eq!(serde_json::to_string(&meta).unwrap(), r#"{"b":1.50, "a":[null]}"#);
        assert_eq!(meta["a"], json!([null]));
        assert_eq!(meta, read(r#"{"a":[null],"b":1.5}"#));
        let from_tree: LazyJson<Meta> = serde_json::from_value(json!({"a": 1})).unwrap();
        assert_eq!(serde_json::to_value(&from_tree).unwrap(), json!({"a": 1}));
        assert!(serde_json::from_str::<LazyJson<Meta>>("5").is_err());
    }

    #[test]
    fn members_are_taken_out_however_their_names_are_written() {
        let mut meta = read(r#"{"k":1,"\u006b":2,"l":{"k":3},"m\n":"k"}"#);
        meta.remove_all(&["k"]);
        assert_eq!(meta.text(), r#"{"l":{"k":3},"m\n":"k"}"#);
        meta.insert("n".into(), json!(4));
        meta.remove_all(&["l", "m\n"]);
        assert_eq!(meta.text(), r#"{"n":4}"#);
        meta.remove_all(&["n"]);
        assert!(meta.is_empty_object() && read("{ }").is_empty_object());
    }

    #[test]
    fn a_tree_of_too_many_values_is_not_built() {
        let text = format!("{{\"a\":[{}0]}}", "0,".repeat(LazyJson::<Meta>::MOST_VALUES));
        let meta = read(&text);
        assert!(meta.is_empty() && !meta.is_empty_object());
        assert_eq!(meta.text(), text);
    }

    #[test]
    fn unparsable_values_are_preserved_and_equal_only_by_text() {
        let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        for odd in ["1e999", r#""\ud800""#, &deep] {
            let mut meta = read(&format!(r#"{{"a":{odd},"b":1}}"#));
            assert!(meta.is_empty(), "{odd}");
            assert_ne!(meta, read("{}"));
            assert_ne!(meta, read(&format!(r#"{{"a":{odd},"b":2}}"#)));
            meta.insert("b".into(), json!(3));
            meta.insert("c".into(), json!(4));
            assert_eq!(meta.text(), format!(r#"{{"a":{odd},"b":3,"c":4}}"#));
        }
    }
}
