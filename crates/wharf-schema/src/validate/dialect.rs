//! JSON Schema dialects and their differences.

use serde_json::{Map, Value};

/// Dialects, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Draft {
    Four,
    Six,
    Seven,
    Y2019,
    Y2020,
}

/// Dialect URIs without scheme and empty fragment.
const DIALECT_URIS: [(&str, Draft); 5] = [
    ("json-schema.org/draft/2020-12/schema", Draft::Y2020),
    ("json-schema.org/draft/2019-09/schema", Draft::Y2019),
    ("json-schema.org/draft-07/schema", Draft::Seven),
    ("json-schema.org/draft-06/schema", Draft::Six),
    ("json-schema.org/draft-04/schema", Draft::Four),
];

impl Draft {
    /// Dialect with this URI.
    pub(crate) fn at(address: &str) -> Option<Self> {
        let bare = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://"))?;
        let bare = bare.trim_end_matches('#');
        DIALECT_URIS.iter().find(|(known, _)| *known == bare).map(|(_, draft)| *draft)
    }

    /// Dialect that the schema's `$schema` names.
    pub(super) fn named_in(schema: &Map<String, Value>) -> Option<Self> {
        Draft::at(schema.get("$schema")?.as_str()?)
    }

    /// Keyword that sets the URI of a schema.
    pub(super) fn id_keyword(self) -> &'static str {
        if self == Draft::Four { "id" } else { "$id" }
    }

    /// True if keywords beside `$ref` are ignored.
    pub(super) fn ref_stands_alone(self) -> bool {
        self <= Draft::Seven
    }

    /// True if items that match `contains` count as evaluated.
    pub(super) fn contains_evaluates(self) -> bool {
        self >= Draft::Y2020
    }
}
