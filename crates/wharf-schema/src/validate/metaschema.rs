//! The schemas of schemas: a reference to one of them needs nothing fetched.
//!
//! Each is built from tables of keywords and what belongs to them. The definitions in them have the
//! names that the published ones have, so that pointers into them lead to the same.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::dialect::Draft::{self, Four, Seven, Six, Y2019, Y2020};

/// What keywords must have for values.
#[derive(Clone, Copy)]
enum Is {
    Any,
    Boolean,
    Text,
    Format(&'static str),
    Like(&'static str),
    Number,
    Positive,
    Count,
    Schema,
    /// What is left over: the oldest dialect knows booleans only here.
    Rest,
    Schemas,
    SchemaOrSchemas,
    NamedSchemas,
    /// By pattern.
    FoundSchemas,
    Dependencies,
    Names,
    NamedNames,
    Values,
    Choices,
    Types,
    Vocabulary,
}

/// Keywords, with spaces between them.
type Table = &'static [(&'static str, Is)];

const DESCRIPTIONS: Table = &[("title description", Is::Text), ("default", Is::Any)];

const LIMITS: Table = &[
    ("multipleOf", Is::Positive),
    ("maximum minimum", Is::Number),
    ("maxLength minLength maxItems minItems maxProperties minProperties", Is::Count),
    ("pattern", Is::Format("regex")),
    ("uniqueItems", Is::Boolean),
    ("required", Is::Names),
    ("type", Is::Types),
];

/// What drafts 4, 6 and 7 have beside.
const OLD: Table = &[
    ("format", Is::Text),
    ("items", Is::SchemaOrSchemas),
    ("additionalItems additionalProperties", Is::Rest),
    ("definitions properties", Is::NamedSchemas),
    ("dependencies", Is::Dependencies),
    ("allOf anyOf oneOf", Is::Schemas),
    ("not", Is::Schema),
];

const FOUR: Table = &[
    ("id $schema", Is::Text),
    ("exclusiveMaximum exclusiveMinimum", Is::Boolean),
    ("patternProperties", Is::NamedSchemas),
    ("enum", Is::Choices),
];

const SIX: Table = &[
    ("$id $ref", Is::Format("uri-reference")),
    ("$schema", Is::Format("uri")),
    ("examples enum", Is::Values),
    ("exclusiveMaximum exclusiveMinimum", Is::Number),
    ("contains propertyNames", Is::Schema),
    ("patternProperties", Is::FoundSchemas),
    ("const", Is::Any),
];

const SEVEN: Table = &[
    ("$comment contentMediaType contentEncoding", Is::Text),
    ("readOnly writeOnly", Is::Boolean),
    ("if then else", Is::Schema),
];

const CORE: Table = &[
    ("$id", Is::Like("^[^#]*#?$")),
    ("$schema", Is::Format("uri")),
    ("$ref", Is::Format("uri-reference")),
    ("$vocabulary", Is::Vocabulary),
    ("$comment", Is::Text),
    ("$defs", Is::NamedSchemas),
];

const CORE_2019: Table = &[
    ("$anchor", Is::Like("^[A-Za-z][-A-Za-z0-9.:_]*$")),
    ("$recursiveRef", Is::Format("uri-reference")),
    ("$recursiveAnchor", Is::Boolean),
];

const ANCHOR: Is = Is::Like("^[A-Za-z_][-A-Za-z0-9._]*$");

const CORE_2020: Table =
    &[("$anchor $dynamicAnchor", ANCHOR), ("$dynamicRef", Is::Format("uri-reference"))];

const APPLICATOR: Table = &[
    ("contains additionalProperties propertyNames if then else not", Is::Schema),
    ("properties dependentSchemas", Is::NamedSchemas),
    ("patternProperties", Is::FoundSchemas),
    ("allOf anyOf oneOf", Is::Schemas),
];

const APPLICATOR_2019: Table = &[("items", Is::SchemaOrSchemas), ("additionalItems", Is::Schema)];

const APPLICATOR_2020: Table = &[("prefixItems", Is::Schemas), ("items", Is::Schema)];

const UNEVALUATED: Table = &[("unevaluatedItems unevaluatedProperties", Is::Schema)];

const VALIDATION: Table = &[
    ("exclusiveMaximum exclusiveMinimum", Is::Number),
    ("maxContains minContains", Is::Count),
    ("dependentRequired", Is::NamedNames),
    ("const", Is::Any),
    ("enum", Is::Values),
];

const META_DATA: Table =
    &[("deprecated readOnly writeOnly", Is::Boolean), ("examples", Is::Values)];

const FORMAT: Table = &[("format", Is::Text)];

const CONTENT: Table =
    &[("contentEncoding contentMediaType", Is::Text), ("contentSchema", Is::Schema)];

/// What newer dialects took from older ones, only so that it is used in no other way.
const FORMER: Table = &[("definitions", Is::NamedSchemas), ("dependencies", Is::Dependencies)];

const FORMER_2020: Table =
    &[("$recursiveAnchor", ANCHOR), ("$recursiveRef", Is::Format("uri-reference"))];

/// The vocabularies of the two newest dialects: they are schemas with addresses of their own.
type Vocabularies = &'static [(&'static str, &'static [Table])];

const IN_2019: Vocabularies = &[
    ("meta/core", &[CORE, CORE_2019]),
    ("meta/applicator", &[APPLICATOR, APPLICATOR_2019, UNEVALUATED]),
    ("meta/validation", &[VALIDATION, LIMITS]),
    ("meta/meta-data", &[META_DATA, DESCRIPTIONS]),
    ("meta/format", &[FORMAT]),
    ("meta/content", &[CONTENT]),
];

const IN_2020: Vocabularies = &[
    ("meta/core", &[CORE, CORE_2020]),
    ("meta/applicator", &[APPLICATOR, APPLICATOR_2020]),
    ("meta/unevaluated", &[UNEVALUATED]),
    ("meta/validation", &[VALIDATION, LIMITS]),
    ("meta/meta-data", &[META_DATA, DESCRIPTIONS]),
    ("meta/format-annotation", &[FORMAT]),
    ("meta/format-assertion", &[FORMAT]),
    ("meta/content", &[CONTENT]),
];

/// All that is built in: where it is published, its dialect and its vocabularies.
const PUBLISHED: [(&str, Draft, Vocabularies); 5] = [
    ("http://json-schema.org/draft-04/", Four, &[]),
    ("http://json-schema.org/draft-06/", Six, &[]),
    ("http://json-schema.org/draft-07/", Seven, &[]),
    ("https://json-schema.org/draft/2019-09/", Y2019, IN_2019),
    ("https://json-schema.org/draft/2020-12/", Y2020, IN_2020),
];

/// The dialect whose schema, or a vocabulary of it, has this address without a fragment.
pub(crate) fn dialect_at(address: &str) -> Option<Draft> {
    let is_here = |(directory, _, vocabularies): &&(&str, Draft, Vocabularies)| {
        let rest = address.strip_prefix(directory);
        rest.is_some_and(|it| it == "schema" || vocabularies.iter().any(|(name, _)| *name == it))
    };
    PUBLISHED.iter().find(is_here).map(|(_, draft, _)| *draft)
}

/// The schema of schemas of a dialect, with its address.
pub(super) fn of(draft: Draft) -> (&'static str, &'static Value) {
    static ALL: LazyLock<[(String, Value); 5]> = LazyLock::new(|| {
        PUBLISHED.map(|(directory, draft, vocabularies)| {
            let address = format!("{directory}schema");
            let schema = Builder(draft).whole(&address, vocabularies);
            (address, schema)
        })
    });
    let (address, schema) = &ALL[draft as usize];
    (address, schema)
}

struct Builder(Draft);

impl Builder {
    fn whole(&self, address: &str, vocabularies: Vocabularies) -> Value {
        let tables: &[Table] = match self.0 {
            Four => &[DESCRIPTIONS, LIMITS, OLD, FOUR],
            Six => &[DESCRIPTIONS, LIMITS, OLD, SIX],
            Seven => &[DESCRIPTIONS, LIMITS, OLD, SIX, SEVEN],
            Y2019 => &[FORMER],
            Y2020 => &[FORMER, FORMER_2020],
        };
        let mut schema = self.part(address, tables);
        schema["$schema"] = address.into();
        if self.0 == Four {
            schema["dependencies"] =
                json!({"exclusiveMaximum": ["maximum"], "exclusiveMinimum": ["minimum"]});
        }
        if !vocabularies.is_empty() {
            let part = |(name, tables): &(&str, &[Table])| self.part(name, tables);
            schema["allOf"] = vocabularies.iter().map(part).collect();
        }
        schema
    }

    /// One schema with an address.
    fn part(&self, address: &str, tables: &[Table]) -> Value {
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

    /// What several keywords have for values.
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
            "schemaArray": {"type": "array", "minItems": 1, "items": self.itself()},
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

    fn itself(&self) -> Value {
        match self.0 {
            Y2020 => json!({"$dynamicRef": "#meta"}),
            Y2019 => json!({"$recursiveRef": "#"}),
            _ => json!({"$ref": "#"}),
        }
    }

    fn value(&self, is: Is) -> Value {
        let object = |values: Value| json!({"type": "object", "additionalProperties": values});
        match is {
            Is::Any => json!({}),
            Is::Boolean => json!({"type": "boolean"}),
            Is::Text => json!({"type": "string"}),
            Is::Format(format) => json!({"type": "string", "format": format}),
            Is::Like(pattern) => json!({"type": "string", "pattern": pattern}),
            Is::Number => json!({"type": "number"}),
            Is::Positive if self.0 == Four => {
                json!({"type": "number", "minimum": 0, "exclusiveMinimum": true})
            }
            Is::Positive => json!({"type": "number", "exclusiveMinimum": 0}),
            Is::Count => self.named(self.count()),
            Is::Rest if self.0 == Four => json!({"anyOf": [{"type": "boolean"}, self.itself()]}),
            Is::Schema | Is::Rest => self.itself(),
            Is::Schemas => self.named("schemaArray"),
            Is::SchemaOrSchemas => json!({"anyOf": [self.itself(), self.named("schemaArray")]}),
            Is::NamedSchemas => object(self.itself()),
            Is::FoundSchemas => {
                let mut found = object(self.itself());
                found["propertyNames"] = json!({"format": "regex"});
                found
            }
            Is::Dependencies => {
                object(json!({"anyOf": [self.itself(), self.named("stringArray")]}))
            }
            Is::Names => self.named("stringArray"),
            Is::NamedNames => object(self.named("stringArray")),
            Is::Values => json!({"type": "array"}),
            Is::Choices => json!({"type": "array", "minItems": 1, "uniqueItems": true}),
            Is::Types => {
                let list = json!({"type": "array", "items": self.named("simpleTypes"),
                    "minItems": 1, "uniqueItems": true});
                json!({"anyOf": [self.named("simpleTypes"), list]})
            }
            Is::Vocabulary => {
                let mut vocabulary = object(json!({"type": "boolean"}));
                vocabulary["propertyNames"] = self.named("uriString");
                vocabulary
            }
        }
    }
}
