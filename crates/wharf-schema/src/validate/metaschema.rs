//! Built-in metaschemas, so that references to them need no fetch.
//!
//! Each is built from tables of keywords and value shapes. Definitions have the names of the
//! published metaschemas, so that JSON pointers into them resolve to the same schemas.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::dialect::Draft::{self, Four, Seven, Six, Y2019, Y2020};

/// Required shape of a keyword's value.
#[derive(Clone, Copy)]
enum ValueShape {
    Any,
    Boolean,
    Text,
    Format(&'static str),
    Like(&'static str),
    Number,
    Positive,
    Count,
    Schema,
    /// Schema for all other items or properties; draft 4 allows booleans only here.
    Rest,
    Schemas,
    SchemaOrSchemas,
    NamedSchemas,
    /// Schemas by pattern.
    PatternSchemas,
    Dependencies,
    Names,
    NamedNames,
    Values,
    Choices,
    Types,
    Vocabulary,
}

/// Space-separated keywords and their value shapes.
type KeywordTable = &'static [(&'static str, ValueShape)];

const DESCRIPTIONS: KeywordTable =
    &[("title description", ValueShape::Text), ("default", ValueShape::Any)];

const LIMITS: KeywordTable = &[
    ("multipleOf", ValueShape::Positive),
    ("maximum minimum", ValueShape::Number),
    ("maxLength minLength maxItems minItems maxProperties minProperties", ValueShape::Count),
    ("pattern", ValueShape::Format("regex")),
    ("uniqueItems", ValueShape::Boolean),
    ("required", ValueShape::Names),
    ("type", ValueShape::Types),
];

/// Keywords that drafts 4, 6 and 7 have in addition.
const DRAFTS_4_TO_7: KeywordTable = &[
    ("format", ValueShape::Text),
    ("items", ValueShape::SchemaOrSchemas),
    ("additionalItems additionalProperties", ValueShape::Rest),
    ("definitions properties", ValueShape::NamedSchemas),
    ("dependencies", ValueShape::Dependencies),
    ("allOf anyOf oneOf", ValueShape::Schemas),
    ("not", ValueShape::Schema),
];

const DRAFT_4: KeywordTable = &[
    ("id $schema", ValueShape::Text),
    ("exclusiveMaximum exclusiveMinimum", ValueShape::Boolean),
    ("patternProperties", ValueShape::NamedSchemas),
    ("enum", ValueShape::Choices),
];

const DRAFT_6: KeywordTable = &[
    ("$id $ref", ValueShape::Format("uri-reference")),
    ("$schema", ValueShape::Format("uri")),
    ("examples enum", ValueShape::Values),
    ("exclusiveMaximum exclusiveMinimum", ValueShape::Number),
    ("contains propertyNames", ValueShape::Schema),
    ("patternProperties", ValueShape::PatternSchemas),
    ("const", ValueShape::Any),
];

const DRAFT_7: KeywordTable = &[
    ("$comment contentMediaType contentEncoding", ValueShape::Text),
    ("readOnly writeOnly", ValueShape::Boolean),
    ("if then else", ValueShape::Schema),
];

const CORE: KeywordTable = &[
    ("$id", ValueShape::Like("^[^#]*#?$")),
    ("$schema", ValueShape::Format("uri")),
    ("$ref", ValueShape::Format("uri-reference")),
    ("$vocabulary", ValueShape::Vocabulary),
    ("$comment", ValueShape::Text),
    ("$defs", ValueShape::NamedSchemas),
];

const CORE_2019: KeywordTable = &[
    ("$anchor", ValueShape::Like("^[A-Za-z][-A-Za-z0-9.:_]*$")),
    ("$recursiveRef", ValueShape::Format("uri-reference")),
    ("$recursiveAnchor", ValueShape::Boolean),
];

const ANCHOR: ValueShape = ValueShape::Like("^[A-Za-z_][-A-Za-z0-9._]*$");

const CORE_2020: KeywordTable =
    &[("$anchor $dynamicAnchor", ANCHOR), ("$dynamicRef", ValueShape::Format("uri-reference"))];

const APPLICATOR: KeywordTable = &[
    ("contains additionalProperties propertyNames if then else not", ValueShape::Schema),
    ("properties dependentSchemas", ValueShape::NamedSchemas),
    ("patternProperties", ValueShape::PatternSchemas),
    ("allOf anyOf oneOf", ValueShape::Schemas),
];

const APPLICATOR_2019: KeywordTable =
    &[("items", ValueShape::SchemaOrSchemas), ("additionalItems", ValueShape::Schema)];

const APPLICATOR_2020: KeywordTable =
    &[("prefixItems", ValueShape::Schemas), ("items", ValueShape::Schema)];

const UNEVALUATED: KeywordTable = &[("unevaluatedItems unevaluatedProperties", ValueShape::Schema)];

const VALIDATION: KeywordTable = &[
    ("exclusiveMaximum exclusiveMinimum", ValueShape::Number),
    ("maxContains minContains", ValueShape::Count),
    ("dependentRequired", ValueShape::NamedNames),
    ("const", ValueShape::Any),
    ("enum", ValueShape::Values),
];

const META_DATA: KeywordTable =
    &[("deprecated readOnly writeOnly", ValueShape::Boolean), ("examples", ValueShape::Values)];

const FORMAT: KeywordTable = &[("format", ValueShape::Text)];

const CONTENT: KeywordTable = &[
    ("contentEncoding contentMediaType", ValueShape::Text),
    ("contentSchema", ValueShape::Schema),
];

/// Deprecated keywords of older dialects, defined only to validate their values.
const DEPRECATED: KeywordTable =
    &[("definitions", ValueShape::NamedSchemas), ("dependencies", ValueShape::Dependencies)];

const DEPRECATED_2020: KeywordTable =
    &[("$recursiveAnchor", ANCHOR), ("$recursiveRef", ValueShape::Format("uri-reference"))];

/// Vocabularies of 2019-09 and 2020-12, which are metaschemas with their own URIs.
type VocabularyList = &'static [(&'static str, &'static [KeywordTable])];

const VOCABULARIES_2019: VocabularyList = &[
    ("meta/core", &[CORE, CORE_2019]),
    ("meta/applicator", &[APPLICATOR, APPLICATOR_2019, UNEVALUATED]),
    ("meta/validation", &[VALIDATION, LIMITS]),
    ("meta/meta-data", &[META_DATA, DESCRIPTIONS]),
    ("meta/format", &[FORMAT]),
    ("meta/content", &[CONTENT]),
];

const VOCABULARIES_2020: VocabularyList = &[
    ("meta/core", &[CORE, CORE_2020]),
    ("meta/applicator", &[APPLICATOR, APPLICATOR_2020]),
    ("meta/unevaluated", &[UNEVALUATED]),
    ("meta/validation", &[VALIDATION, LIMITS]),
    ("meta/meta-data", &[META_DATA, DESCRIPTIONS]),
    ("meta/format-annotation", &[FORMAT]),
    ("meta/format-assertion", &[FORMAT]),
    ("meta/content", &[CONTENT]),
];

/// Built-in metaschemas: URI, dialect and vocabularies.
const METASCHEMAS: [(&str, Draft, VocabularyList); 5] = [
    ("http://json-schema.org/draft-04/", Four, &[]),
    ("http://json-schema.org/draft-06/", Six, &[]),
    ("http://json-schema.org/draft-07/", Seven, &[]),
    ("https://json-schema.org/draft/2019-09/", Y2019, VOCABULARIES_2019),
    ("https://json-schema.org/draft/2020-12/", Y2020, VOCABULARIES_2020),
];

/// Dialect whose metaschema, or one of its vocabularies, has this URI without a fragment.
pub(crate) fn dialect_at(address: &str) -> Option<Draft> {
    let is_here = |(directory, _, vocabularies): &&(&str, Draft, VocabularyList)| {
        let rest = address.strip_prefix(directory);
        rest.is_some_and(|it| it == "schema" || vocabularies.iter().any(|(name, _)| *name == it))
    };
    METASCHEMAS.iter().find(is_here).map(|(_, draft, _)| *draft)
}

/// Metaschema of a dialect, with its URI.
pub(super) fn of(draft: Draft) -> (&'static str, &'static Value) {
    static ALL: LazyLock<[(String, Value); 5]> = LazyLock::new(|| {
        METASCHEMAS.map(|(directory, draft, vocabularies)| {
            let address = format!("{directory}schema");
            let schema = MetaschemaBuilder(draft).whole(&address, vocabularies);
            (address, schema)
        })
    });
    let (address, schema) = &ALL[draft as usize];
    (address, schema)
}

struct MetaschemaBuilder(Draft);

impl MetaschemaBuilder {
    fn whole(&self, address: &str, vocabularies: VocabularyList) -> Value {
        let tables: &[KeywordTable] = match self.0 {
            Four => &[DESCRIPTIONS, LIMITS, DRAFTS_4_TO_7, DRAFT_4],
            Six => &[DESCRIPTIONS, LIMITS, DRAFTS_4_TO_7, DRAFT_6],
            Seven => &[DESCRIPTIONS, LIMITS, DRAFTS_4_TO_7, DRAFT_6, DRAFT_7],
            Y2019 => &[DEPRECATED],
            Y2020 => &[DEPRECATED, DEPRECATED_2020],
        };
        let mut schema = self.part(address, tables);
        schema["$schema"] = address.into();
        if self.0 == Four {
            schema["dependencies"] =
                json!({"exclusiveMaximum": ["maximum"], "exclusiveMinimum": ["minimum"]});
        }
        if !vocabularies.is_empty() {
            let part = |(name, tables): &(&str, &[KeywordTable])| self.part(name, tables);
            schema["allOf"] = vocabularies.iter().map(part).collect();
        }
        schema
    }

    /// Builds a schema with its own URI.
    fn part(&self, address: &str, tables: &[KeywordTable]) -> Value {
        let mut properties = Map::new();
        for (keywords, is) in tables.iter().copied().flatten() {
            for keyword in keywords.split(' ') {
                properties.insert(keyword.into(), self.value(*is));
            }
        }
        let types = if self.0 == Four { json!("object") } else { json!(["object", "boolean"]) };
        let mut schema = json!({"type": types, "properties": properties});
        schema[self.0.id_keyword()] = address.into();
        match self.0 {
            Y2020 => schema["$dynamicAnchor"] = "meta".into(),
            Y2019 => schema["$recursiveAnchor"] = true.into(),
            _ => {}
        }
        schema[self.definitions()] = self.defined();
        schema
    }

    fn definitions(&self) -> &'static str {
        if self.0 <= Seven { "definitions" } else { "$defs" }
    }

    /// Definitions that several keywords share.
    fn defined(&self) -> Value {
        let count = self.count();
        let mut names = json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true});
        if self.0 == Four {
            names["minItems"] = 1.into();
        }
        let types = ["array", "boolean", "integer", "null", "number", "object", "string"];
        json!({
            count: {"type": "integer", "minimum": 0},
            format!("{count}Default0"): {"allOf": [self.named(count)]},
            "schemaArray": {"type": "array", "minItems": 1, "items": self.self_reference()},
            "stringArray": names,
            "simpleTypes": {"enum": types},
            "uriString": {"type": "string", "format": "uri"},
            "uriReferenceString": {"type": "string", "format": "uri-reference"},
            "anchorString": self.value(ANCHOR),
        })
    }

    fn count(&self) -> &'static str {
        if self.0 == Four { "positiveInteger" } else { "nonNegativeInteger" }
    }

    fn named(&self, name: &str) -> Value {
        json!({"$ref": format!("#/{}/{name}", self.definitions())})
    }

    fn self_reference(&self) -> Value {
        match self.0 {
            Y2020 => json!({"$dynamicRef": "#meta"}),
            Y2019 => json!({"$recursiveRef": "#"}),
            _ => json!({"$ref": "#"}),
        }
    }

    fn value(&self, is: ValueShape) -> Value {
        let object = |values: Value| json!({"type": "object", "additionalProperties": values});
        match is {
            ValueShape::Any => json!({}),
            ValueShape::Boolean => json!({"type": "boolean"}),
            ValueShape::Text => json!({"type": "string"}),
            ValueShape::Format(format) => json!({"type": "string", "format": format}),
            ValueShape::Like(pattern) => json!({"type": "string", "pattern": pattern}),
            ValueShape::Number => json!({"type": "number"}),
            ValueShape::Positive if self.0 == Four => {
                json!({"type": "number", "minimum": 0, "exclusiveMinimum": true})
            }
            ValueShape::Positive => json!({"type": "number", "exclusiveMinimum": 0}),
            ValueShape::Count => self.named(self.count()),
            ValueShape::Rest if self.0 == Four => {
                json!({"anyOf": [{"type": "boolean"}, self.self_reference()]})
            }
            ValueShape::Schema | ValueShape::Rest => self.self_reference(),
            ValueShape::Schemas => self.named("schemaArray"),
            ValueShape::SchemaOrSchemas => {
                json!({"anyOf": [self.self_reference(), self.named("schemaArray")]})
            }
            ValueShape::NamedSchemas => object(self.self_reference()),
            ValueShape::PatternSchemas => {
                let mut found = object(self.self_reference());
                found["propertyNames"] = json!({"format": "regex"});
                found
            }
            ValueShape::Dependencies => {
                object(json!({"anyOf": [self.self_reference(), self.named("stringArray")]}))
            }
            ValueShape::Names => self.named("stringArray"),
            ValueShape::NamedNames => object(self.named("stringArray")),
            ValueShape::Values => json!({"type": "array"}),
            ValueShape::Choices => json!({"type": "array", "minItems": 1, "uniqueItems": true}),
            ValueShape::Types => {
                let list = json!({"type": "array", "items": self.named("simpleTypes"),
                    "minItems": 1, "uniqueItems": true});
                json!({"anyOf": [self.named("simpleTypes"), list]})
            }
            ValueShape::Vocabulary => {
                let mut vocabulary = object(json!({"type": "boolean"}));
                vocabulary["propertyNames"] = self.named("uriString");
                vocabulary
            }
        }
    }
}
