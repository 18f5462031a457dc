//! The dialects of JSON Schema, and what tells them apart.

use serde_json::{Map, Value};

/// A dialect, from the oldest to the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Draft {
    Four,
    Six,
    Seven,
    Y2019,
    Y2020,
}

/// By their addresses, without scheme and empty fragment.
const DIALECT_URIS: [(&str, Draft); 5] = [
    ("json-schema.org/draft/2020-12/schema", Draft::Y2020),
    ("json-schema.org/draft/2019-09/schema", Draft::Y2019),
    ("json-schema.org/draft-07/schema", Draft::Seven),
    ("json-schema.org/draft-06/schema", Draft::Six),
    ("json-schema.org/draft-04/schema", Draft::Four),
];

impl Draft {
    /// The dialect with this address.
    pub(crate) fn at(address: &str) -> Option<Self> {
        let bare = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://"))?;
        let bare = bare.trim_end_matches('#');
        DIALECT_URIS.iter().find(|(known, _)| *known == bare).map(|(_, draft)| *draft)
    }

    /// The dialect that a schema says it is written in.
    pub(super) fn named_in(schema: &Map<String, Value>) -> Option<Self> {
        Draft::at(schema.get("$schema")?.as_str()?)
    }

    /// The keyword that gives a schema an address.
    pub(super) fn id_keyword(self) -> &'static str {
        if self == Draft::Four { "id" } else { "$id" }
    }

    /// Whether nothing counts that stands beside a `$ref`.
    pub(super) fn ref_stands_alone(self) -> bool {
        self <= Draft::Seven
    }

    /// Whether what `contains` found counts as evaluated.
    pub(super) fn contains_evaluates(self) -> bool {
        self >= Draft::Y2020
    }
}
