//! Tests of forms with scripted input.

use serde_json::json;
use wharf::model::ElicitAction;

use super::*;
use crate::terminal::Script;

fn form() -> ElicitForm {
    ElicitForm::new(
        "Where to?",
        json!({"type": "object", "required": ["name", "size"], "properties": {
            "name": {"type": "string", "title": "Your name", "minLength": 2},
            "size": {"type": "integer", "minimum": 1, "maximum": 9},
            "mail": {"type": "string", "format": "email"},
            "fast": {"type": "boolean", "default": true},
            "colour": {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]},
            "speed": {"type": "string", "oneOf": [{"const": "s", "title": "Slow"}, {"const": "f", "title": "Fast"}]},
            "days": {"type": "array", "items": {"enum": ["mo", "tu", "we"]}, "minItems": 1, "maxItems": 2}
        }}),
    )
}

#[test]
fn every_field_type_is_prompted_and_converted() {
    let mut script = Script::new(&["Ann", "3", "a@b.c", "", "2", "fast", "we, 1", "y"]);
    let result = fill("harbour", &form(), &mut script);
    let expected = json!({"name": "Ann", "size": 3, "mail": "a@b.c", "fast": true,
        "colour": "g", "speed": "f", "days": ["we", "mo"]});
    assert_eq!(result, ElicitResult::accept(expected));
    for shown in
        ["harbour asks: Where to?", "Your name", "  2) Green", "from 1 to 9", "Enter for yes"]
    {
        assert!(script.printed.contains(shown), "{shown}: {}", script.printed);
    }
}

#[test]
fn invalid_input_is_prompted_again() {
    let answers = [
        "", "A", "Ann", "many", "12", "3", "nobody", "", "perhaps", "no", "7", "Red", "",
        "mo,tu,we", "do", "mo", "e", "Bob", "4", "", "", "", "", "tu", "",
    ];
    let mut script = Script::new(&answers);
    let result = fill("harbour", &form(), &mut script);
    let expected = json!({"name": "Bob", "size": 4, "fast": true, "days": ["tu"]});
    assert_eq!(result, ElicitResult::accept(expected), "{}", script.printed);
    for why in [
        "At least 2 characters",
        "not a whole number",
        "from 1 to 9",
        "not an email address.",
        "yes or no",
        "from 1 to 2",
        "At most 2 of them",
        "`do` is not one of them",
    ] {
        assert!(script.printed.contains(why), "{why}: {}", script.printed);
    }
}

#[test]
fn the_user_may_decline_or_cancel() {
    for (answers, action) in [
        (vec![":decline"], ElicitAction::Decline),
        (vec!["Ann", ":cancel"], ElicitAction::Cancel),
        (vec!["Ann"], ElicitAction::Cancel),
        (vec!["Ann", "3", "", "", "", "", "mo", "d"], ElicitAction::Decline),
    ] {
        assert_eq!(fill("harbour", &form(), &mut Script::new(&answers)).action, action);
    }
}

#[test]
fn a_form_without_fields_is_a_confirmation() {
    let form = ElicitForm::new("Go on?\x1b[2J", json!({"type": "object", "properties": {}}));
    let mut script = Script::new(&["y"]);
    assert_eq!(fill("harbour", &form, &mut script), ElicitResult::accept(json!({})));
    assert!(script.printed.contains("\\x1b[2J"));
}

#[test]
fn invalid_bounds_are_not_shown() {
    let size = json!({"type": "integer", "minimum": "\u{9b}2J", "maximum": 9});
    let form = ElicitForm::new("How big?", json!({"type": "object", "properties": {"n": size}}));
    let mut script = Script::new(&["12", "3"]);
    assert_eq!(fill("harbour", &form, &mut script), ElicitResult::accept(json!({"n": 3})));
    assert!(script.printed.contains("a whole number, at most 9"), "{}", script.printed);
    assert!(!script.printed.contains('\u{9b}'), "{}", script.printed);
}
