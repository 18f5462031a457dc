//! The step budget counts the length of every text that a validation reads, including names.

use serde_json::{Value, json};
use wharf_schema::{
    client_output_validator::{OutputValidator, Validity},
    validate::{MAX_STEPS, Schema},
};

/// A long name that differs from others of its length only at its end.
fn name(length: usize, last: char) -> String {
    format!("{}{last}", "n".repeat(length - 1))
}

/// A schema and a value with names of that length, for each keyword that reads names or texts.
fn pairs(length: usize) -> Vec<(&'static str, Value, Value)> {
    let (a, b) = (name(length, 'a'), name(length, 'b'));
    let object = json!({a.clone(): 1});
    let list = |count| vec![json!({a.clone(): 1}); count];
    let by_name = |it: Value| json!({a.clone(): it});
    vec![
        ("required, present", json!({"required": [a]}), object.clone()),
        ("required, missing", json!({"not": {"required": [b]}}), object.clone()),
        ("dependentRequired, key", json!({"dependentRequired": {b.clone(): []}}), object.clone()),
        (
            "dependentRequired, names",
            json!({"dependentRequired": by_name(json!([a]))}),
            object.clone(),
        ),
        ("dependentSchemas", json!({"dependentSchemas": {b.clone(): true}}), object.clone()),
        (
            "dependencies",
            json!({"$schema": "http://json-schema.org/draft-07/schema#",
            "dependencies": {b.clone(): {}}}),
            object.clone(),
        ),
        ("properties", json!({"properties": {b.clone(): true}}), object.clone()),
        ("patternProperties", json!({"patternProperties": {"^x": true}}), object.clone()),
        (
            "patternProperties, unanchored",
            json!({"patternProperties": {"x": true}}),
            object.clone(),
        ),
        ("additionalProperties", json!({"additionalProperties": true}), object.clone()),
        ("propertyNames", json!({"propertyNames": {"const": a}}), object.clone()),
        ("const, object", json!({"const": object}), object.clone()),
        ("const, text", json!({"const": a}), json!(a)),
        ("enum, objects", json!({"enum": [{b.clone(): 1}, object]}), object.clone()),
        ("enum, texts", json!({"enum": [b, a]}), json!(a)),
        ("uniqueItems, few", json!({"not": {"uniqueItems": true}}), json!(list(2))),
        ("uniqueItems, many", json!({"not": {"uniqueItems": true}}), json!(list(20))),
        (
            "$dynamicRef",
            json!({"$dynamicRef": format!("#{a}"),
            "$defs": {"x": {"$dynamicAnchor": a}}}),
            object.clone(),
        ),
        ("maxLength", json!({"maxLength": length}), json!(a)),
        ("pattern", json!({"not": {"pattern": "x"}}), json!(a)),
        ("format", json!({"format": "uri-reference"}), json!(a)),
    ]
}

/// Smallest step budget within which the validation completes.
fn steps(schema: &Schema, value: &Value) -> usize {
    let (mut few, mut enough) = (0, MAX_STEPS);
    while few + 1 < enough {
        let middle = few.midpoint(enough);
        match schema.is_valid(value, middle) {
            Ok(_) => enough = middle,
            Err(_) => few = middle,
        }
    }
    enough
}

#[test]
fn every_keyword_counts_the_length_of_names() {
    const LENGTH: usize = 64_000;
    for ((keyword, short, small), (_, long, large)) in pairs(16).into_iter().zip(pairs(LENGTH)) {
        let (short, long) = (Schema::compile(&short).unwrap(), Schema::compile(&long).unwrap());
        assert_eq!(short.is_valid(&small, MAX_STEPS), Ok(true), "{keyword}");
        assert_eq!(long.is_valid(&large, MAX_STEPS), Ok(true), "{keyword}");
        let (few, many) = (steps(&short, &small), steps(&long, &large));
        assert!(many >= few + LENGTH / 33, "{keyword}: {few} and {many} steps");
    }
}

/// Schema from a security audit: references that fan out, each to a lookup of one long name.
#[test]
fn references_that_fan_out_to_long_names_exceed_the_budget() {
    let is_part = |(keyword, ..): &(&str, Value, Value)| *keyword != "$dynamicRef";
    for (keyword, rule, value) in pairs(60_000).into_iter().filter(is_part) {
        let fan = |to: &str| json!({"allOf": vec![json!({"$ref": format!("#/$defs/{to}")}); 40]});
        let schema = json!({"$ref": "#/$defs/a", "items": {"$ref": "#/$defs/other"}, "$defs": {
            "a": fan("b"), "b": fan("c"), "c": fan("rule"), "rule": rule,
            // A dynamic reference disables the memo.
            "other": {"$dynamicAnchor": "other", "items": {"$dynamicRef": "#other"}}}});
        let schema = Schema::compile(&schema).unwrap();
        assert!(schema.is_valid(&value, MAX_STEPS).is_err(), "{keyword}");
        let told = schema.problems(&value, MAX_STEPS, false).to_string();
        assert!(told.contains("too long"), "{keyword}: {told}");
    }
}

#[test]
fn deep_paths_of_long_names_cost_steps_when_problems_are_collected() {
    let value = (0..100).fold(json!(1), |inner, _| json!({name(300, 'a'): inner}));
    let schema = json!({"type": "object", "additionalProperties": {"$ref": "#"}});
    let schema = Schema::compile(&schema).unwrap();
    let is_cut_short =
        |steps| schema.problems(&value, steps, false).to_string().contains("too long");
    // Ten steps for each name, and a thousand for the path of the only problem.
    assert!(is_cut_short(1500));
    assert!(!is_cut_short(5000));
}

#[test]
fn classes_of_many_properties_cost_steps() {
    let scripts = ["Latin", "Greek", "Han", "Thai", "Arabic", "Hebrew", "Lao", "Khmer", "Runic"];
    let class: String = scripts.iter().map(|it| format!(r"\p{{scx={it}}}\p{{sc={it}}}")).collect();
    let text = json!("1".repeat(10_000));
    let plain = Schema::compile(&json!({"pattern": r"\p{scx=Latin}"})).unwrap();
    let many = Schema::compile(&json!({"pattern": format!("[{class}]")})).unwrap();
    assert!(steps(&many, &text) >= steps(&plain, &text) + 4 * 10_000);
}

#[test]
fn foreign_schemas_with_long_names_are_rejected() {
    for (keyword, schema, _) in pairs(1025) {
        let is_about_names = !["enum, texts", "const, text", "maxLength", "pattern", "format"]
            .contains(&keyword)
            && !keyword.starts_with("patternProperties")
            && !keyword.starts_with("uniqueItems")
            && keyword != "additionalProperties"
            && keyword != "propertyNames";
        let refused = OutputValidator::new(&schema).err();
        assert_eq!(
            refused.as_deref(),
            is_about_names.then_some("a name in the schema is longer than 1024 bytes"),
            "{keyword}"
        );
    }
    for (keyword, schema, value) in pairs(1000) {
        let validator = OutputValidator::new(&schema).unwrap();
        assert_eq!(validator.validate(&value.to_string()), Validity::Valid, "{keyword}");
    }
}

/// Regression: 170 kB of schema became 240 MB of resolved URIs.
#[test]
fn resolved_uris_of_nested_ids_are_limited() {
    let segment = format!("{}/", "a".repeat(2000));
    let siblings = vec![json!({"$id": "x"}); 900];
    let nested =
        (0..60).fold(json!({"allOf": siblings}), |inner, _| json!({"$id": segment, "not": inner}));
    assert!(OutputValidator::new(&nested).unwrap_err().contains("2048 bytes"));
    assert!(Schema::compile(&nested).unwrap_err().contains("2048 bytes"));
    let absolute = (0..60).fold(
        json!(true),
        |inner, at| json!({"$id": format!("https://x.test/{at}/{segment}"), "not": inner}),
    );
    OutputValidator::new(&absolute).unwrap();
}

/// A Punycode name takes many times as long as a text that is only scanned.
#[test]
fn internationalized_names_cost_more_steps() {
    for format in ["hostname", "idn-hostname"] {
        let validator = OutputValidator::new(&json!({"items": {"format": format}})).unwrap();
        let check = |name: &str| validator.validate(&json!(vec![name; 20_000]).to_string());
        assert!(matches!(check("ihqwcrb4cv8a8dqg056pqjye.example"), Validity::Valid), "{format}");
        assert!(
            matches!(check("xn--ihqwcrb4cv8a8dqg056pqjye"), Validity::Unchecked(_)),
            "{format}"
        );
    }
}
