//! Random schemas and values: this validator and another one must agree.

use std::sync::LazyLock;

use jsonschema::{PatternOptions, Validator};
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Map, Value, json};
use wharf_schema::validate::Schema;

const MAX_STEPS: usize = 100_000;

fn other_validator(schema: &Value) -> Option<Validator> {
    let options = jsonschema::options().should_validate_formats(true).offline();
    options.with_pattern_options(PatternOptions::regex()).build(schema).ok()
}

fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        (-4_i64..12).prop_map(Value::from),
        select(vec![json!(1.0), json!(2.5), json!(-0.5), json!(0.1), json!(0.3), json!(3.0)]),
        select(vec![json!(u64::MAX), json!(i64::MIN), json!(9_007_199_254_740_993_i64)]),
    ]
}

fn word() -> impl Strategy<Value = String> {
    select(vec!["a", "b", "c", "ab", "", "é", "a1", "12"]).prop_map(str::to_owned)
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number(),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((word(), inner), 0..4)
                .prop_map(|all| all.into_iter().collect::<Map<String, Value>>().into()),
        ]
    })
}

/// A keyword with a sample value.
type KeywordSample = (&'static str, Value);

fn plain_keyword() -> impl Strategy<Value = KeywordSample> {
    let types = select(vec!["null", "boolean", "integer", "number", "string", "array", "object"]);
    let count = || (0_u64..4).prop_map(Value::from);
    let names = || {
        vec(word(), 0..3).prop_map(|mut all| {
            all.sort();
            all.dedup();
            Value::from(all)
        })
    };
    prop_oneof![
        types.clone().prop_map(|it| ("type", json!(it))),
        (types.clone(), types)
            .prop_filter("unique", |(one, other)| one != other)
            .prop_map(|(one, other)| ("type", json!([one, other]))),
        value().prop_map(|it| ("const", it)),
        vec(value(), 1..4).prop_map(|it| ("enum", it.into())),
        number().prop_map(|it| ("minimum", it)),
        number().prop_map(|it| ("maximum", it)),
        number().prop_map(|it| ("exclusiveMinimum", it)),
        number().prop_map(|it| ("exclusiveMaximum", it)),
        select(vec![json!(1), json!(2), json!(0.5), json!(0.1), json!(3.0)])
            .prop_map(|it| ("multipleOf", it)),
        count().prop_map(|it| ("minLength", it)),
        count().prop_map(|it| ("maxLength", it)),
        select(vec!["^a", "b$", "^[a-z]+$", r"\d", r"^\w*$", "^.$", "(a|b){2}"])
            .prop_map(|it| ("pattern", json!(it))),
        count().prop_map(|it| ("minItems", it)),
        count().prop_map(|it| ("maxItems", it)),
        any::<bool>().prop_map(|it| ("uniqueItems", it.into())),
        count().prop_map(|it| ("minProperties", it)),
        count().prop_map(|it| ("maxProperties", it)),
        names().prop_map(|it| ("required", it)),
    ]
}

fn named(schema: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    vec((word(), schema), 0..3)
        .prop_map(|all| all.into_iter().collect::<Map<String, Value>>().into())
}

fn by_pattern(schema: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let pattern = select(vec!["^a", "b$", "^.$", r"\d"]);
    vec((pattern, schema), 0..3).prop_map(|all| {
        all.into_iter().map(|(it, schema)| (it.to_owned(), schema)).collect::<Map<_, _>>().into()
    })
}

fn reference() -> impl Strategy<Value = KeywordSample> {
    select(vec!["#/$defs/x", "#/$defs/y", "#", "#named"]).prop_map(|to| ("$ref", json!(to)))
}

fn keyword(inner: BoxedStrategy<Value>) -> impl Strategy<Value = KeywordSample> {
    let list = || vec(inner.clone(), 1..4).prop_map(Value::from);
    prop_oneof![
        6 => plain_keyword(),
        2 => reference(),
        2 => named(inner.clone()).prop_map(|it| ("properties", it)),
        1 => by_pattern(inner.clone()).prop_map(|it| ("patternProperties", it)),
        1 => inner.clone().prop_map(|it| ("additionalProperties", it)),
        1 => inner.clone().prop_map(|it| ("propertyNames", it)),
        1 => named(inner.clone()).prop_map(|it| ("dependentSchemas", it)),
        1 => list().prop_map(|it| ("prefixItems", it)),
        1 => inner.clone().prop_map(|it| ("items", it)),
        1 => inner.clone().prop_map(|it| ("contains", it)),
        1 => (0_u64..3).prop_map(|it| ("minContains", it.into())),
        1 => (0_u64..3).prop_map(|it| ("maxContains", it.into())),
        1 => list().prop_map(|it| ("allOf", it)),
        1 => list().prop_map(|it| ("anyOf", it)),
        1 => list().prop_map(|it| ("oneOf", it)),
        1 => inner.clone().prop_map(|it| ("not", it)),
        1 => inner.clone().prop_map(|it| ("if", it)),
        1 => inner.clone().prop_map(|it| ("then", it)),
        1 => inner.clone().prop_map(|it| ("else", it)),
        2 => inner.clone().prop_map(|it| ("unevaluatedItems", it)),
        2 => inner.prop_map(|it| ("unevaluatedProperties", it)),
    ]
}

fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        1 => any::<bool>().prop_map(Value::from),
        6 => vec(plain_keyword(), 0..3).prop_map(object),
    ];
    leaf.prop_recursive(3, 24, 3, |inner| vec(keyword(inner.boxed()), 1..4).prop_map(object))
}

fn object(entries: Vec<KeywordSample>) -> Value {
    entries.into_iter().map(|(name, it)| (name.to_owned(), it)).collect::<Map<_, _>>().into()
}

fn document() -> impl Strategy<Value = Value> {
    (schema(), schema(), schema(), vec(keyword(schema().boxed()), 1..4)).prop_map(
        |(x, y, mut anchored, root)| {
            let mut root = object(root);
            if let Some(map) = anchored.as_object_mut() {
                map.insert("$anchor".into(), "named".into());
            }
            root["$defs"] = json!({"x": x, "y": y, "z": anchored});
            root
        },
    )
}

/// The same schema in an older dialect.
fn in_older_dialect(schema: &Value) -> Value {
    match schema {
        Value::Array(all) => all.iter().map(in_older_dialect).collect(),
        Value::Object(map) => {
            let renamed = map.iter().map(|(keyword, it)| {
                let keyword = match keyword.as_str() {
                    "$defs" => "definitions",
                    "$anchor" => return ("$id".to_owned(), json!("#named")),
                    "dependentSchemas" => "dependencies",
                    "items" if map.contains_key("prefixItems") => "additionalItems",
                    "prefixItems" => "items",
                    other => other,
                };
                let it = match it.as_str() {
                    Some(to) if keyword == "$ref" => json!(to.replace("$defs", "definitions")),
                    _ => in_older_dialect(it),
                };
                (keyword.to_owned(), it)
            });
            renamed.collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

/// Patterns with all supported constructs.
fn pattern() -> impl Strategy<Value = String> {
    let atoms = vec![
        "a", "b", "1", ".", r"\d", r"\w", r"\W", r"\s", r"\S", "[ab]", "[^a]", "[a-c1]", r"[\d-]",
        r"[^\s]", r"\b", "^", "$", "é", r"\.", r"[\w.]", r"\x61", r"\u0062",
    ];
    let leaf = select(atoms).prop_map(str::to_owned);
    leaf.prop_recursive(3, 12, 3, |inner| {
        let often = select(vec!["*", "+", "?", "{2}", "{1,2}", "{0,1}", "{1,}", "*?", "+?"]);
        prop_oneof![
            vec(inner.clone(), 1..4).prop_map(|all| all.concat()),
            vec(inner.clone(), 1..3).prop_map(|all| format!("(?:{})", all.join("|"))),
            (inner.clone(), often).prop_map(|(it, often)| format!("({it}){often}")),
            inner.clone().prop_map(|it| format!("(?={it})")),
            inner.prop_map(|it| format!("(?!{it})")),
        ]
    })
}

fn sample() -> impl Strategy<Value = String> {
    vec(select(vec!['a', 'b', 'c', '1', '_', '-', ' ', '.', ']']), 0..8)
        .prop_map(|all| all.into_iter().collect())
}

/// Texts that match some format. Dates and times are left out: the other validator accepts
/// `202/-02-28`.
const SAMPLES: [(&str, &str); 28] = [
    ("duration", "P4DT12H30M5S"),
    ("duration", "P1Y2M3D"),
    ("duration", "P4W"),
    ("duration", "PT36H"),
    ("email", "joe.bloggs+x@example.com"),
    ("email", "joe@[127.0.0.1]"),
    ("email", "joe@[IPv6:::1]"),
    ("hostname", "www.example.com"),
    ("hostname", "a-b.c-d"),
    ("ipv4", "192.168.0.1"),
    ("ipv6", "::abef:1"),
    ("ipv6", "1:2::192.168.0.1"),
    ("uri", "http://foo.bar:8080/baz?qux=quux#a%20b"),
    ("uri", "http://a:b@[::1]:80/x"),
    ("uri", "urn:oasis:names"),
    ("uri", "mailto:John@example.com"),
    ("uri", "//foo.bar/?baz"),
    ("uri-reference", "../a/b?x#y"),
    ("uri-reference", "//host/p"),
    ("iri", "http://ƒøø.ßår/?∂éœ=πîx#πîüx"),
    ("iri-reference", "/â/b"),
    ("uri-template", "http://e.com/{term:1}/{+x,y*}{?q}"),
    ("uri-template", "/{a.b%20c}"),
    ("uuid", "2EB8AA08-aa98-11ea-b4aa-73b441d16380"),
    ("json-pointer", "/foo/bar~0/baz~1/%a"),
    ("json-pointer", ""),
    ("relative-json-pointer", "120/foo~0"),
    ("relative-json-pointer", "0#"),
];

fn mutated_text() -> impl Strategy<Value = (&'static str, String)> {
    let spoiler = select("0159 aZ.:-+@/~%#[](){}?*^$\\T\"é".chars().collect::<Vec<char>>());
    (select(SAMPLES.to_vec()), any::<proptest::sample::Index>(), spoiler, 0..4).prop_map(
        |((format, text), at, spoiler, how)| {
            let mut chars: Vec<char> = text.chars().collect();
            let at = at.index(chars.len() + 1);
            match how {
                0 => {}
                1 => chars.insert(at, spoiler),
                2 if at < chars.len() => chars[at] = spoiler,
                _ if at < chars.len() => drop(chars.remove(at)),
                _ => {}
            }
            (format, chars.into_iter().collect())
        },
    )
}

fn agree(schema: &Value, values: &[Value]) -> Result<(), TestCaseError> {
    let (Some(other_validator), Ok(ours)) = (other_validator(schema), Schema::compile(schema))
    else {
        return Ok(());
    };
    for value in values {
        let (theirs, ours_says) =
            (other_validator.is_valid(value), ours.is_valid(value, MAX_STEPS));
        let Ok(fits) = ours_says else { continue };
        prop_assert_eq!(fits, theirs, "{} by {}", value, schema);
        let told = ours.problems(value, MAX_STEPS, true);
        prop_assert_eq!(told.is_empty(), fits, "{} by {}: {}", value, schema, told);
    }
    Ok(())
}

/// URIs of the metaschemas.
const METASCHEMAS: [&str; 4] = [
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema#",
    "http://json-schema.org/draft-06/schema#",
];

static COMPILED: LazyLock<Vec<(&str, Validator, Schema)>> = LazyLock::new(|| {
    let compile = |metaschema| {
        let by = json!({"$schema": metaschema, "$ref": metaschema});
        (metaschema, other_validator(&by).unwrap(), Schema::compile(&by).unwrap())
    };
    METASCHEMAS.into_iter().map(compile).collect()
});

/// Valid schemas, and schemas in which a keyword has the value of another one.
fn mutated_schema() -> impl Strategy<Value = Value> {
    let keyword = || keyword(schema().boxed());
    (vec(keyword(), 1..4), keyword(), keyword(), any::<bool>()).prop_map(
        |(root, (name, _), (_, other), is_spoiled)| {
            let mut root = object(root);
            if is_spoiled {
                root[name] = other;
            }
            root
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn values_fit_the_same_schemas(schema in document(), values in vec(value(), 8)) {
        agree(&schema, &values)?;
    }

    #[test]
    fn patterns_are_found_in_the_same_texts(pattern in pattern(), texts in vec(sample(), 8)) {
        let schema = json!({"pattern": pattern});
        let other_validator = jsonschema::options().offline().build(&schema);
        let (Ok(other_validator), Ok(ours)) = (other_validator, Schema::compile(&schema)) else { return Ok(()) };
        for text in texts {
            let value = Value::from(text);
            prop_assert_eq!(ours.is_valid(&value, MAX_STEPS), Ok(other_validator.is_valid(&value)), "{} {}", pattern, value);
        }
    }

    #[test]
    fn texts_are_of_the_same_formats((format, text) in mutated_text()) {
        let schema = json!({"format": format});
        let (other_validator, ours) = (other_validator(&schema).unwrap(), Schema::compile(&schema).unwrap());
        let value = Value::from(text);
        prop_assert_eq!(ours.is_valid(&value, MAX_STEPS), Ok(other_validator.is_valid(&value)), "{} {}", format, value);
    }

    #[test]
    fn values_fit_the_same_schemas_in_older_dialects(schema in document(), values in vec(value(), 8)) {
        let mut schema = in_older_dialect(&schema);
        schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
        agree(&schema, &values)?;
    }

    #[test]
    fn schemas_fit_the_same_metaschemas(schema in mutated_schema()) {
        for (metaschema, other_validator, ours) in &*COMPILED {
            let told = ours.problems(&schema, MAX_STEPS, true);
            prop_assert_eq!(
                ours.is_valid(&schema, MAX_STEPS), Ok(other_validator.is_valid(&schema)), "{} by {}: {}", schema, metaschema, told
            );
        }
    }
}
