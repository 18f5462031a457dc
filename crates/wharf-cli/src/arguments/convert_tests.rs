//! Tests of the conversion of strings to arguments.

use serde_json::json;

use crate::arguments::convert::*;
use crate::{arguments::parse_arguments, terminal::Paint};

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "What to say."},
            "count": {"type": "integer"},
            "ratio": {"type": "number"},
            "loud": {"type": "boolean"},
            "colour": {"type": "string", "enum": ["red", "green", "blue"]},
            "level": {"enum": [1, 2, "max"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "sizes": {"type": ["array", "null"], "items": {"$ref": "#/$defs/size"}},
            "maybe": {"anyOf": [{"type": "integer"}, {"type": "boolean"}, {"type": "null"}]},
            "place": {"type": "object", "properties": {
                "city": {"type": "string"}, "spot": {"$ref": "#/$defs/spot"}}},
            "extra": {"type": "object", "additionalProperties": {"type": "integer"}},
            "anything": {},
            "nothing": {"type": "null"},
            "dotted.name": {"type": "integer"}
        },
        "required": ["text"],
        "$defs": {
            "size": {"type": "integer"},
            "spot": {"type": "object", "properties": {"x": {"type": "number"}}}
        }
    })
}

fn read(words: &[&str]) -> Result<Value, String> {
    let words: Vec<String> = ["text=hi"].iter().chain(words).map(|&it| it.to_owned()).collect();
    let words = parse_arguments(&words).map_err(|fail| fail.json())?;
    let read = arguments("tool", &schema(), words).map_err(|fail| fail.json())?;
    let mut read = Value::from(read);
    read.as_object_mut().unwrap().remove("text");
    Ok(read)
}

#[test]
fn strings_are_converted_by_the_schema() {
    for (words, expected) in [
        (vec!["count=3", "ratio=2.5"], json!({"count": 3, "ratio": 2.5})),
        (vec!["ratio=2", "count=-7"], json!({"ratio": 2, "count": -7})),
        (vec!["count=18446744073709551615"], json!({"count": u64::MAX})),
        (vec!["loud=yes"], json!({"loud": true})),
        (vec!["loud=false"], json!({"loud": false})),
        (vec!["colour=green", "level=2"], json!({"colour": "green", "level": 2})),
        (vec!["level=max"], json!({"level": "max"})),
        (vec!["tags=a"], json!({"tags": ["a"]})),
        (vec!["tags=a", "tags=b=c"], json!({"tags": ["a", "b=c"]})),
        (vec![r#"tags=["a","b"]"#], json!({"tags": ["a", "b"]})),
        (vec!["sizes=1", "sizes=2"], json!({"sizes": [1, 2]})),
        (vec!["sizes=null"], json!({"sizes": null})),
        (vec!["maybe=1"], json!({"maybe": 1})),
        (vec!["maybe=true"], json!({"maybe": true})),
        (vec!["maybe=null"], json!({"maybe": null})),
        (vec![r#"place={"city":"Oslo"}"#], json!({"place": {"city": "Oslo"}})),
        (vec!["place.city=7", "place.spot.x=7"], json!({"place": {"city": "7", "spot": {"x": 7}}})),
        (vec!["extra.a=1", "extra.b=2"], json!({"extra": {"a": 1, "b": 2}})),
        (vec!["dotted.name=1"], json!({"dotted.name": 1})),
        (vec!["anything=[1]"], json!({"anything": [1]})),
        (vec!["anything=a b"], json!({"anything": "a b"})),
        (vec!["unknown:=1"], json!({"unknown": 1})),
        (vec![r#"{"count":1,"loud":true}"#, "count=2"], json!({"count": 2, "loud": true})),
        (vec!["place.spot.x:=7"], json!({"place": {"spot": {"x": 7}}})),
        (vec![r#"{"place.city":1}"#], json!({"place.city": 1})),
    ] {
        assert_eq!(read(&words), Ok(expected), "{words:?}");
    }
}

#[test]
fn later_arguments_override_earlier_ones() {
    for (words, expected) in [
        (vec!["count=2", r#"{"count":1}"#], json!({"count": 1})),
        (vec!["count=2", "count:=1"], json!({"count": 1})),
        (vec!["count=2", "count:=1", "count=3"], json!({"count": 3})),
        (vec!["tags=a", "loud:=true", "tags=b"], json!({"loud": true, "tags": ["a", "b"]})),
        (vec!["place.city=Oslo", "place:={}"], json!({"place": {}})),
        (
            vec![r#"place={"city":"Oslo"}"#, "place.spot.x:=1"],
            json!({"place": {"city": "Oslo", "spot": {"x": 1}}}),
        ),
    ] {
        assert_eq!(read(&words), Ok(expected), "{words:?}");
    }
}

#[test]
fn invalid_arguments_state_the_reason() {
    for (words, why) in [
        (vec!["count=many"], "count: `many` is not an integer"),
        (vec!["count=1.5"], "count: `1.5` is not an integer"),
        (vec!["count="], "count: `` is not an integer"),
        (vec!["ratio=NaN"], "ratio: `NaN` is not a number"),
        (vec!["loud=perhaps"], "loud: `perhaps` is neither true nor false"),
        (vec!["colour=gren"], "Did you mean `green`?"),
        (vec!["level=9"], "level: `9` is not one of 1, 2, max"),
        (vec!["place=Oslo"], "place: `Oslo` is not a JSON object"),
        (vec!["tags=[1"], "tags: this list is not valid JSON"),
        (vec!["sizes=a"], "sizes: `a` is not an integer"),
        (vec!["maybe=x"], "maybe: `x` is not an integer; or: `x` is neither true nor false"),
        (vec!["count=1", "count=2"], "count is given 2 times, but takes one value"),
        (vec!["cuont=1"], "Did you mean `count`?"),
        (vec!["place.town=x"], "tool has no argument `place.town`"),
        (vec!["extra.a=x"], "extra.a: `x` is not an integer"),
        (vec!["nothing=x"], "nothing: `x` is not null"),
    ] {
        let told = read(&words).unwrap_err();
        assert!(told.contains(why), "{words:?}: {told}");
    }
}

#[test]
fn missing_arguments_are_described() {
    let fail = arguments("`say`", &schema(), Vec::new()).unwrap_err();
    let told = fail.json();
    assert!(told.contains("needs this argument:"), "{told}");
    assert!(told.contains("text=string  What to say."), "{told}");
}

#[test]
fn error_messages_about_server_schemas_are_limited() {
    let names: Vec<String> = (0..20_000).map(|at| format!("n{at}\nx")).collect();
    let about = json!({"type": "string", "description": "a\n".repeat(1000)});
    let fields: Map<String, Value> =
        names.iter().map(|name| (name.clone(), about.clone())).collect();
    let schema = json!({"type": "object", "properties": fields, "required": names});
    let told = arguments("`say`", &schema, Vec::new()).unwrap_err().text(Paint::PLAIN);
    assert!(told.starts_with("error: `say` needs these arguments:\n"), "{told}");
    assert!(told.lines().count() == MAX_ARGUMENTS + 2 && told.ends_with("\n  …"), "{told}");
}

#[test]
fn signatures_list_the_arguments() {
    let shown = signature(&schema());
    assert!(shown.starts_with("text=string [count=integer] "), "{shown}");
    assert!(shown.contains("[colour=red|green|blue]") && shown.ends_with(" …"), "{shown}");
    assert_eq!(signature(&json!({"type": "object"})), "");
}
