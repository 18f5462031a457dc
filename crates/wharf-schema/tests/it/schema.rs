//! Schema checks that client and server share.

use serde_json::{Map, Value, json};
use wharf_schema::{
    client_output_validator::{OutputValidator, Validity},
    elicitation_form, header_annotations,
    param_headers::ParamHeaders,
    schema_problems::{self, SchemaLimits, SchemaProblem},
    validate::Schema,
};

fn check(schema: Value, value: &Value) -> Validity {
    OutputValidator::new(&schema).unwrap().validate(&value.to_string())
}

#[test]
fn mismatches_are_reported_with_the_reason() {
    let schema = json!({"type": "object", "required": ["day"], "properties": {
        "day": {"type": "string", "format": "date"}, "code": {"pattern": "^[a-z]{2}$"},
        "next": {"$ref": "#"}}});
    let good = json!({"day": "2026-07-28", "code": "de", "next": {"day": "2026-07-29"}});
    assert_eq!(check(schema.clone(), &good), Validity::Valid);
    for (bad, part) in [
        (json!({}), "day"),
        (json!({"day": "soon"}), "`day`"),
        (json!({"day": "2026-07-28", "code": "deu"}), "`code`"),
        (json!({"day": "2026-07-28", "next": {}}), "`next`"),
    ] {
        let Validity::Invalid(told) = check(schema.clone(), &bad) else { panic!("{bad}") };
        assert!(told.contains(part), "{told}");
    }
}

#[test]
fn schemas_beyond_the_bounds_are_not_compiled() {
    let hidden = vec![json!(1); 70_000];
    let long = |length| "a".repeat(length);
    let circle = json!({"$ref": "#/$defs/a", "$defs": {
        "a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}});
    for (schema, reason) in [
        (json!({"x": hidden}), "65536 values"),
        (json!({"x": long(300_000)}), "262144 bytes"),
        (json!({"$id": long(3000)}), "2048 bytes"),
        (json!({"items": {"$ref": long(3000)}}), "2048 bytes"),
        (json!({"pattern": long(20_000)}), "16384 bytes"),
        (json!({"pattern": format!("(?:a{}){{30000}}", "()".repeat(3000))}), "too large"),
        (json!({"$dynamicRef": "#a"}), "has no target"),
        (json!({"$ref": "#/$defs/a", "$defs": {}}), "has no target"),
        (json!({"$ref": "#"}), "reference cycle"),
        (circle, "reference cycle"),
        (json!({"patternProperties": {"(": {}}}), "("),
        (json!({"pattern": "(a{1000}){1000}"}), "too large"),
        (json!({"allOf": vec![json!({"pattern": "a{10000}"}); 10]}), "too large"),
        (json!({"pattern": r"(?<x>a)\k<x>"}), "contains a backreference"),
        (json!({"properties": {"a": {"type": "text"}}}), "`/properties/a`: `type`"),
        (json!({"items": {"minimum": "1"}}), "a number, not \"1\""),
        (json!({"multipleOf": 0}), "greater than 0"),
        (json!({"required": "a"}), "a list of strings"),
        (json!({"items": [true]}), "prefixItems"),
    ] {
        let error = OutputValidator::new(&schema).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn validation_ends_when_the_step_budget_is_spent() {
    let turn = json!({"properties": {"a": {"$dynamicRef": "#x"}}});
    let twice = json!({"$dynamicAnchor": "x", "allOf": [turn, turn]});
    let deep = (0..60).fold(json!(1), |inner, _| json!({"a": inner}));
    let wide = json!({"items": {"enum": (0..20_000).collect::<Vec<u32>>()}});
    let slow = json!({"pattern": "(a?){500}(a?){500}b"});
    for (schema, value) in
        [(twice, deep), (wide, json!(vec![19_999; 20_000])), (slow, json!("a".repeat(100_000)))]
    {
        assert!(matches!(check(schema, &value), Validity::Unchecked(_)));
    }
}

#[test]
fn results_of_references_are_memoized() {
    let turn = json!({"properties": {"a": {"$ref": "#/$defs/node"}}});
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let node = json!({"type": "object", keyword: [turn, turn, {"not": turn}]});
        let schema = json!({"$ref": "#/$defs/node", "$defs": {"node": node}});
        let deep = (0..100).fold(json!({}), |inner, _| json!({"a": inner}));
        assert!(!matches!(check(schema, &deep), Validity::Unchecked(_)), "{keyword}");
    }
}

#[test]
fn deep_values_and_deep_schemas_do_not_overflow_the_stack() {
    let turn = json!({"$dynamicAnchor": "x", "allOf": [{"anyOf": [{"oneOf": [
        {"items": {"$dynamicRef": "#x"}, "properties": {"a": {"$dynamicRef": "#x"}}}]}]}]});
    for open in ["[", "{\"a\":"] {
        let close = if open == "[" { "]" } else { "}" };
        let value = format!("{}1{}", open.repeat(120), close.repeat(120));
        assert_eq!(OutputValidator::new(&turn).unwrap().validate(&value), Validity::Valid);
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let endless = json!({"$dynamicAnchor": "x", "unevaluatedItems": true,
            keyword: [{"$dynamicRef": "#x"}, false]});
        let schema = Schema::compile(&endless).unwrap();
        assert!(schema.is_valid(&json!([1]), 100_000).is_err());
        assert!(schema.problems(&json!([1]), 100_000, true).to_string().contains("too long"));
    }
    let groups = format!("{}{}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(OutputValidator::new(&json!({"pattern": groups})).is_err());
}

/// Repeated parts of a schema are stored once, and quoted text is shortened.
#[test]
fn repeated_parts_are_stored_once_and_long_texts_are_shortened() {
    let class: String = (0..4000).filter_map(|n| char::from_u32(0x4E00 + 2 * n)).collect();
    let schema = json!({"pattern": format!("^[{class}]{{20000}}$")});
    assert!(matches!(check(schema, &json!("x")), Validity::Invalid(_)));
    let traits = json!({"pattern": format!("[{}]", r"\d".repeat(8000))});
    assert!(matches!(check(traits, &json!("a".repeat(20_000))), Validity::Invalid(_)));
    let siblings: Map<String, Value> =
        (0..1000).map(|n| (n.to_string(), json!({"type": "null"}))).collect();
    let nested = json!({"properties": {"x".repeat(100_000): {"properties": siblings}}});
    assert_eq!(Schema::compile(&nested).unwrap().is_valid(&json!({}), 1000), Ok(true));
    let options = vec![json!({"type": "object", "required": ["a"]}); 400];
    let named = json!({"additionalProperties": {"anyOf": options}});
    let value = json!({"k".repeat(1_000_000): {}});
    assert!(!matches!(check(named, &value), Validity::Valid));
    let forged = json!({"a\n- `x`: fake\u{1b}[31m": 1});
    let Validity::Invalid(told) = check(json!({"additionalProperties": false}), &forged) else {
        panic!("{forged}")
    };
    assert!(!told.contains(char::is_control), "{told:?}");
}

#[test]
fn problems_contain_the_path_and_the_reason() {
    let tagged = json!({"oneOf": [
        {"properties": {"kind": {"const": "a"}, "n": {"type": "integer"}}, "required": ["kind", "n"]},
        {"properties": {"kind": {"const": "b"}, "s": {"type": "string"}}, "required": ["kind", "s"]}]});
    for (schema, value, told) in [
        (json!({"type": ["null", "string"]}), json!(1), "- 1 is not of types \"null\", \"string\""),
        (json!({"enum": [1, 2, 3, 4]}), json!(5), "- 5 is not one of 1, 2 or 2 other candidates"),
        (json!({"const": "x"}), json!("y"), "- \"x\" was expected"),
        (
            json!({"required": ["a", "b"]}),
            json!({}),
            "- \"a\" is a required property\n- \"b\" is a required property",
        ),
        (
            json!({"additionalProperties": false}),
            json!({"a": 1, "b": 2}),
            "- Additional properties are not allowed ('a', 'b' were unexpected)",
        ),
        (
            json!({"prefixItems": [true], "items": false}),
            json!([1, 2]),
            "- Additional items are not allowed (2 was unexpected)",
        ),
        (
            json!({"properties": {"a": {"items": {"maxLength": 1}}}}),
            json!({"a": ["b", "cc"]}),
            "- `a.1`: \"cc\" is longer than 1 character",
        ),
        (
            json!({"not": {"type": "null"}}),
            json!(null),
            "- {\"type\":\"null\"} is not allowed for null",
        ),
        (tagged, json!({"kind": "b", "s": 1}), "- `s`: 1 is not of type \"string\""),
        (
            json!({"anyOf": [{"type": "null"}, {"minimum": 3}]}),
            json!(1),
            "- 1 is less than the minimum of 3",
        ),
        (
            json!({"anyOf": [{"minimum": 3}, {"multipleOf": 2}]}),
            json!(1),
            "- 1 is not valid under any of the schemas listed in the 'anyOf' keyword",
        ),
        (
            json!({"propertyNames": {"pattern": "^a"}}),
            json!({"b": 1}),
            "- \"b\" does not match \"^a\"",
        ),
        (
            json!({"contains": {"type": "null"}}),
            json!([1]),
            "- None of [1] are valid under the given schema",
        ),
        (
            json!({"properties": {"a\nb": false}}),
            json!({"a\nb": 1}),
            "- `a\u{FFFD}b`: False schema does not allow 1",
        ),
    ] {
        assert_eq!(check(schema, &value), Validity::Invalid(told.into()));
    }
}

#[test]
fn values_are_not_quoted_if_quotes_are_off() {
    let schema = json!({"type": "string", "enum": [1], "properties": {"a": {"maximum": 1}}, "maxProperties": 0});
    let schema = Schema::compile(&schema).unwrap();
    let told = schema.problems(&json!({"a": 424_242}), 1000, false).to_string();
    assert!(told.contains("`a`: value is greater than the maximum of 1"), "{told}");
    assert!(!told.contains("424242"), "{told}");
}

#[test]
fn problems_of_a_schema_are_distinguished() {
    let limits = SchemaLimits::new(3, 8);
    let nested = json!({"not": {"not": {"not": {}}}});
    let wide: Vec<Value> = vec![json!({}); 8];
    for (schema, problem) in [
        (nested, SchemaProblem::TooDeep(3)),
        (json!({"allOf": wide}), SchemaProblem::TooManySubschemas(8)),
        (json!({"items": 7}), SchemaProblem::NotASchema),
        (
            json!({"$schema": "https://x.test/s"}),
            SchemaProblem::UnsupportedDialect("https://x.test/s".into()),
        ),
        (
            json!({"$ref": "https://x.test/s"}),
            SchemaProblem::RemoteReference("https://x.test/s".into()),
        ),
    ] {
        let found = schema_problems::problems(&schema, limits);
        assert_eq!(found, [problem], "{schema}");
        assert!(!found[0].to_string().is_empty());
    }
    let inside =
        json!({"$id": "https://x.test/s", "$ref": "https://x.test/s#/$defs/a", "$defs": {"a": {}}});
    assert!(schema_problems::problems(&inside, limits).is_empty());
}

#[test]
fn encoded_param_headers_pass_the_server_check() {
    let deep =
        json!({"type": "object", "properties": {"on": {"type": "boolean", "x-mcp-header": "On"}}});
    let schema = json!({"type": "object", "properties": {"deep": deep,
        "n": {"type": "integer", "x-mcp-header": "N"}, "s": {"type": "string", "x-mcp-header": "S"}}});
    assert!(header_annotations::problems(&schema, 64).is_empty());
    let headers = ParamHeaders::of(&schema, 64);
    for arguments in [
        "{}",
        r#"{"n":1.0,"s":"\u00e9 \n","deep":{"on":false}}"#,
        r#"{"n":null,"deep":null,"other":[1]}"#,
        r#"{"deep":{"on":true,"n":5},"s":""}"#,
    ] {
        let mirrored = headers.values_for(arguments).unwrap();
        headers.check(arguments, &mirrored).unwrap();
    }
    for unreadable in [r#"{"n":[1]}"#, r#"{"n":1,"n":2}"#, r#"{"deep":{"on":{}}}"#] {
        assert!(headers.values_for(unreadable).is_err(), "{unreadable}");
    }
    assert!(ParamHeaders::default().values_for("no JSON at all").is_ok());
}

#[test]
fn forms_with_very_many_fields_are_validated_in_linear_time() {
    let fields: serde_json::Map<String, Value> =
        (0..100_000).map(|n| (format!("a{n}"), json!({"type": "string"}))).collect();
    let required: Vec<String> = (0..100_000).map(|n| format!("b{n}")).collect();
    let form = json!({"type": "object", "properties": fields, "required": required});
    assert_eq!(elicitation_form::check(&form, None).unwrap(), json!({}));
}
