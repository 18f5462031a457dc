//! What both sides of the protocol do with schemas.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use wharf_schema::{
    form, header,
    mirror::Mirrors,
    output::{Checker, Verdict},
    survey::{self, Bounds, Problem},
};

fn check(schema: Value, value: &Value) -> Verdict {
    Checker::new(&schema).unwrap().check(&value.to_string())
}

#[test]
fn values_fit_or_are_told_why_not() {
    let schema = json!({"type": "object", "required": ["day"], "properties": {
        "day": {"type": "string", "format": "date"}, "code": {"pattern": "^[a-z]{2}$"},
        "next": {"$ref": "#"}}});
    let good = json!({"day": "2026-07-28", "code": "de", "next": {"day": "2026-07-29"}});
    assert_eq!(check(schema.clone(), &good), Verdict::Fits);
    for (bad, part) in [
        (json!({}), "day"),
        (json!({"day": "soon"}), "`day`"),
        (json!({"day": "2026-07-28", "code": "deu"}), "`code`"),
        (json!({"day": "2026-07-28", "next": {}}), "`next`"),
    ] {
        let Verdict::Misfit(told) = check(schema.clone(), &bad) else { panic!("{bad}") };
        assert!(told.contains(part), "{told}");
    }
}

#[test]
fn schemas_beyond_the_bounds_are_not_compiled() {
    let hidden: Vec<Value> = (0..70_000).map(|n| json!(n)).collect();
    let two = json!({"unevaluatedItems": false, "unevaluatedProperties": false});
    for (schema, reason) in [
        (json!({"x": hidden}), "65536 values"),
        (json!({"$dynamicRef": "#a"}), "cannot be told"),
        (json!({"$ref": "#/$defs/a", "$defs": {"a": {"$id": "b:c"}}}), "cannot be told"),
        (json!({"allOf": [two, two, two]}), "unevaluated"),
        (json!({"$ref": "#/x", "x": two}), "unevaluated"),
        (json!({"patternProperties": {"(": {}}}), "("),
    ] {
        let error = Checker::new(&schema).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
    assert_eq!(check(two, &json!({})), Verdict::Fits);
}

#[test]
fn problems_of_a_schema_are_told_apart() {
    let bounds = Bounds { depth: 3, subschemas: 8 };
    let nested = json!({"not": {"not": {"not": {}}}});
    let wide: Vec<Value> = vec![json!({}); 8];
    for (schema, problem) in [
        (nested, Problem::TooDeep(3)),
        (json!({"allOf": wide}), Problem::TooMany(8)),
        (json!({"items": 7}), Problem::NoSchema),
        (json!({"$schema": "https://x.test/s"}), Problem::Dialect("https://x.test/s".into())),
        (json!({"$ref": "https://x.test/s"}), Problem::Outside("https://x.test/s".into())),
    ] {
        let found = survey::problems(&schema, bounds);
        assert_eq!(found, [problem], "{schema}");
        assert!(!found[0].to_string().is_empty());
    }
    let inside =
        json!({"$id": "https://x.test/s", "$ref": "https://x.test/s#/$defs/a", "$defs": {"a": {}}});
    assert!(survey::problems(&inside, bounds).is_empty());
}

#[test]
fn what_is_mirrored_is_what_the_other_side_expects() {
    let deep =
        json!({"type": "object", "properties": {"on": {"type": "boolean", "x-mcp-header": "On"}}});
    let schema = json!({"type": "object", "properties": {"deep": deep,
        "n": {"type": "integer", "x-mcp-header": "N"}, "s": {"type": "string", "x-mcp-header": "S"}}});
    assert!(header::problems(&schema, 64).is_empty());
    let mirrors = Mirrors::of(&schema, 64);
    for arguments in [
        "{}",
        r#"{"n":1.0,"s":"\u00e9 \n","deep":{"on":false}}"#,
        r#"{"n":null,"deep":null,"other":[1]}"#,
        r#"{"deep":{"on":true,"n":5},"s":""}"#,
    ] {
        let mirrored = mirrors.read(arguments).unwrap();
        mirrors.check(arguments, &mirrored).unwrap();
    }
    for unreadable in [r#"{"n":[1]}"#, r#"{"n":1,"n":2}"#, r#"{"deep":{"on":{}}}"#] {
        assert!(mirrors.read(unreadable).is_err(), "{unreadable}");
    }
    assert!(Mirrors::default().read("no JSON at all").is_ok());
}

#[test]
fn forms_with_very_many_fields_are_checked_in_no_time() {
    let fields: serde_json::Map<String, Value> =
        (0..100_000).map(|n| (format!("a{n}"), json!({"type": "string"}))).collect();
    let required: Vec<String> = (0..100_000).map(|n| format!("b{n}")).collect();
    let form = json!({"type": "object", "properties": fields, "required": required});
    assert_eq!(form::check(&form, None).unwrap(), json!({}));
}
