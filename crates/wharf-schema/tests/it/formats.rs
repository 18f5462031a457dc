//! Formats, content keywords and metaschemas.

use serde_json::{Value, json};
use wharf_schema::{
    client_output_validator::{OutputValidator, Validity},
    validate::Schema,
};

const SEVEN: &str = "http://json-schema.org/draft-07/schema#";

fn fits(schema: &Value, value: &Value) -> bool {
    Schema::compile(schema).unwrap().is_valid(value, 1_000_000).unwrap()
}

#[test]
fn labels_of_host_names_are_those_of_idna_2008() {
    for (name, in_ascii, in_any_script) in [
        ("www.example.com", true, true),
        ("WWW.Example.COM", true, true),
        ("a--b.test", true, true),
        ("ab--c.test", false, false),
        ("-a.test", false, false),
        ("a_b.test", false, false),
        ("xn--bcher-kva.example", true, true),
        ("XN--BCHER-KVA.example", true, true),
        ("xn--bcher-kv", false, false),
        ("xn--abc-", false, false),
        ("bücher.example", false, true),
        // Names in upper case or without normalization are not in normal form.
        ("Bücher.example", false, false),
        ("bu\u{308}cher.example", false, false),
        ("실례。테스트", false, true),
        ("l·l.cat", false, true),
        ("a·l.cat", false, false),
        ("α͵β", false, true),
        ("א׳ב", false, true),
        ("aא.test", false, false),
        ("क्\u{200D}ष", false, true),
        ("क\u{200D}ष", false, false),
        ("☃.net", false, false),
        ("a..b", false, false),
        ("", false, false),
    ] {
        let format = |format| fits(&json!({"format": format}), &json!(name));
        assert_eq!(format("hostname"), in_ascii, "{name}");
        assert_eq!(format("idn-hostname"), in_any_script, "{name}");
    }
    let long = format!("{}.test", "ü".repeat(60));
    assert!(!fits(&json!({"format": "idn-hostname"}), &json!(long)));
    assert!(!fits(&json!({"format": "idn-hostname"}), &json!("ü.".repeat(100_000))));
}

#[test]
fn old_dialects_do_not_decode_punycode() {
    for (dialect, is) in [("draft-04", true), ("draft-06", true), ("draft-07", false)] {
        let dialect = format!("http://json-schema.org/{dialect}/schema#");
        for name in ["xn--X", "ab--cd.test"] {
            let schema = json!({"$schema": dialect, "format": "hostname"});
            assert_eq!(fits(&schema, &json!(name)), is, "{dialect} {name}");
        }
    }
}

#[test]
fn content_keywords_are_checked_in_draft_7_only() {
    let (base64, json) =
        (json!({"contentEncoding": "base64"}), json!({"contentMediaType": "application/json"}));
    let both = json!({"contentEncoding": "base64", "contentMediaType": "application/json; x=y"});
    let other = json!({"contentEncoding": "gzip", "contentMediaType": "application/json"});
    for (schema, text, is) in [
        (&base64, "aGk=", true),
        (&base64, "aG\r\nk=", true),
        (&base64, "a%k=", false),
        (&json, "{\"a\": [1]}", true),
        (&json, "{:}", false),
        (&both, "e30=", true),
        (&both, "ezp9", false),
        (&both, "{}", false),
        (&other, "{:}", true),
    ] {
        let mut seven = schema.clone();
        seven["$schema"] = SEVEN.into();
        assert_eq!(fits(&seven, &json!(text)), is, "{seven} {text}");
        assert!(fits(&seven, &json!(7)));
        assert!(fits(schema, &json!(text)), "{schema} {text}");
    }
    let json = json!({"$schema": SEVEN, "contentMediaType": "application/json"});
    let told = Schema::compile(&json).unwrap().problems(&json!("{"), 1000, true).to_string();
    assert_eq!(told, "- \"{\" is not a JSON document");
    let deep = json!("[".repeat(1_000_000));
    assert!(!Schema::compile(&json).unwrap().is_valid(&deep, 4_000_000).unwrap());
}

#[test]
fn metaschemas_are_built_in() {
    for metaschema in [
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2019-09/schema",
        SEVEN,
        "http://json-schema.org/draft-06/schema#",
        "http://json-schema.org/draft-04/schema#",
    ] {
        let validator =
            OutputValidator::new(&json!({"properties": {"x": {"$ref": metaschema}}})).unwrap();
        let good = json!({"x": {"type": "object", "properties": {"a": {"minLength": 1}}}});
        assert_eq!(validator.validate(&good.to_string()), Validity::Valid, "{metaschema}");
        let bad = json!({"x": {"properties": {"a": {"minLength": -1}}}});
        let told = validator.validate(&bad.to_string());
        assert!(matches!(told, Validity::Invalid(_)), "{metaschema}: {told:?}");
    }
    let count = "http://json-schema.org/draft-07/schema#/definitions/nonNegativeInteger";
    assert!(!fits(&json!({"$ref": count}), &json!(-1)));
    let part = "https://json-schema.org/draft/2020-12/meta/validation";
    assert!(!fits(&json!({"$ref": part}), &json!({"type": 1})));
    assert!(fits(&json!({"$ref": part}), &json!({"title": 1})));
    // A schema of the document with that URI takes precedence.
    let own = json!({"$ref": part, "$defs": {"own": {"$id": part, "type": "string"}}});
    assert!(fits(&own, &json!("text")));
    assert!(
        OutputValidator::new(&json!({"$ref": "https://json-schema.org/draft/2020-12/other"}))
            .is_err()
    );
}
