//! Tests of elicitation forms.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::context::elicitation_form::*;

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
#[serde(rename_all = "lowercase")]
enum Size {
    Small,
    Large,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
enum Plan {
    /// Costs nothing
    Free,
    /// Costs something
    Paid,
    Other,
}

fn ten() -> u8 {
    10
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct AllTypes {
    /// Your name
    #[schemars(length(min = 2, max = 20))]
    name: String,
    #[schemars(email)]
    mail: Option<String>,
    age: u8,
    #[schemars(range(min = 0.5, max = 2.0))]
    factor: f64,
    #[schemars(extend("exclusiveMinimum" = 3))]
    above: i32,
    sure: bool,
    size: Size,
    /// Which one
    maybe_size: Option<Size>,
    #[schemars(extend("enumNames" = ["S", "L"]))]
    named: Option<Size>,
    #[schemars(extend("enumNames" = ["S"]))]
    misnamed: Option<Size>,
    plan: Plan,
    #[schemars(length(min = 1))]
    sizes: Vec<Size>,
    plans: Option<Vec<Plan>>,
    #[serde(default = "ten")]
    count: u8,
}

#[test]
fn every_kind_of_field_has_its_form() {
    let form = form_schema::<AllTypes>().unwrap();
    let plans = json!([
        {"const": "Free", "title": "Costs nothing"},
        {"const": "Paid", "title": "Costs something"},
        {"const": "Other", "title": "Other"},
    ]);
    // The order of variants is schemars': documented ones may come after the others.
    let sorted = |value: &Value| {
        let mut items = value.as_array().unwrap().clone();
        items.sort_by_key(|item| item.to_string());
        items
    };
    let expected = json!({
        "name": {"type": "string", "description": "Your name", "minLength": 2, "maxLength": 20},
        "mail": {"type": "string", "format": "email"},
        "age": {"type": "integer", "minimum": 0, "maximum": 255},
        "factor": {"type": "number", "minimum": 0.5, "maximum": 2.0},
        "above": {"type": "integer", "minimum": 4},
        "sure": {"type": "boolean"},
        "size": {"type": "string", "enum": ["small", "large"]},
        "maybe_size": {"type": "string", "description": "Which one", "enum": ["small", "large"]},
        "named": {"type": "string", "enum": ["small", "large"], "enumNames": ["S", "L"]},
        "misnamed": {"type": "string", "enum": ["small", "large"]},
        "sizes": {"type": "array", "minItems": 1,
            "items": {"type": "string", "enum": ["small", "large"]}},
        "count": {"type": "integer", "minimum": 0, "maximum": 255, "default": 10},
    });
    let properties = form["properties"].as_object().unwrap();
    for (name, expected) in expected.as_object().unwrap() {
        assert_eq!(&properties[name], expected, "{name}");
    }
    assert_eq!(properties["plan"]["type"], "string");
    assert_eq!(sorted(&properties["plan"]["oneOf"]), sorted(&plans));
    assert_eq!(sorted(&properties["plans"]["items"]["anyOf"]), sorted(&plans));
    let required =
        ["name", "age", "factor", "above", "sure", "size", "plan", "sizes"].map(Value::from);
    assert_eq!(sorted(&form["required"]), sorted(&Value::from(required.to_vec())));
    assert_eq!(restrict(&form).unwrap(), form, "a form is its own restriction");
}

#[test]
fn errors_of_unsupported_types_name_the_field() {
    #[derive(JsonSchema)]
    #[allow(dead_code)]
    struct Inner {
        a: u8,
    }
    #[derive(JsonSchema)]
    #[allow(dead_code)]
    enum MixedEnum {
        A(u8),
        B,
    }
    #[derive(JsonSchema)]
    #[allow(dead_code)]
    struct Nested {
        inner: Inner,
    }
    #[derive(JsonSchema)]
    #[allow(dead_code)]
    struct Listed {
        list: Vec<String>,
    }
    #[derive(JsonSchema)]
    #[allow(dead_code)]
    struct Filled {
        full: MixedEnum,
    }
    #[derive(JsonSchema)]
    #[allow(dead_code)]
    struct Free {
        any: Value,
    }
    assert!(form_schema::<Nested>().unwrap_err().starts_with("`inner`: a form is flat"));
    assert!(form_schema::<Listed>().unwrap_err().starts_with("`list`: a list can only"));
    assert!(form_schema::<Filled>().unwrap_err().starts_with("`full`: a form supports only enums"));
    assert!(form_schema::<Free>().unwrap_err().starts_with("`any`: "));
    #[derive(JsonSchema)]
    #[allow(dead_code)]
    struct Matched {
        #[schemars(regex(pattern = "^a"))]
        text: String,
    }
    assert!(
        form_schema::<Matched>()
            .unwrap_err()
            .starts_with("`text`: a form does not support `pattern`")
    );
    assert!(form_schema::<bool>().unwrap_err().contains("struct with named fields"));
    assert!(form_schema::<Size>().unwrap_err().contains("struct with named fields"));
}

#[test]
fn responses_are_validated_against_the_form() {
    let form = json!({"type": "object", "required": ["name", "n"], "properties": {
        "name": {"type": "string", "minLength": 2, "maxLength": 3},
        "n": {"type": "integer", "minimum": 1, "maximum": 5, "default": 2},
        "day": {"type": "string", "format": "date"},
        "mail": {"type": "string", "format": "email"},
        "link": {"type": "string", "format": "uri"},
        "at": {"type": "string", "format": "date-time"},
        "one": {"type": "string", "enum": ["a", "b"]},
        "titled": {"type": "string", "oneOf": [{"const": "a", "title": "A"}]},
        "some": {"type": "array", "maxItems": 2, "items": {"anyOf": [{"const": "a", "title": "A"}]}},
        "sure": {"type": "boolean"},
    }});
    let ok = |content: Value| check(&form, Some(content)).unwrap();
    let err = |content: Value| check(&form, Some(content)).unwrap_err();
    assert_eq!(ok(json!({"name": "ab", "extra": 1})), json!({"name": "ab", "n": 2}));
    assert_eq!(ok(json!({"name": "äöü", "n": 5.0, "day": null})), json!({"name": "äöü", "n": 5}));
    assert!(check(&form, None).unwrap_err().contains("`name` is missing"));
    assert!(err(json!([])).contains("object"));
    for (field, good, bad) in [
        ("name", json!("abc"), json!("a")),
        ("name", json!("abc"), json!("abcd")),
        ("name", json!("abc"), json!(1)),
        ("n", json!(1), json!(0)),
        ("n", json!(5), json!(6)),
        ("n", json!(5), json!(1.5)),
        ("day", json!("2026-07-28"), json!("28.7.2026")),
        ("mail", json!("a@b"), json!("a b@c")),
        ("link", json!("x:y"), json!("no link")),
        ("at", json!("2026-07-28T01:02:03Z"), json!("2026-07-28")),
        ("one", json!("b"), json!("c")),
        ("titled", json!("a"), json!("A")),
        ("some", json!(["a", "a"]), json!(["a", "a", "a"])),
        ("some", json!([]), json!(["b"])),
        ("sure", json!(true), json!("true")),
    ] {
        let mut content = json!({"name": "ab"});
        content[field] = good.clone();
        assert_eq!(ok(content.clone())[field], good);
        content[field] = bad;
        assert!(err(content).contains(&format!("`{field}`")));
    }
}
