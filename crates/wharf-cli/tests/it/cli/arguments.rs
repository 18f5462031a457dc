//! Arguments in every form of the command line.

use crate::cli::sandbox::{Sandbox, WHARF};

fn text(sandbox: &Sandbox, words: &[&str], input: &str) -> String {
    let words = [&["call"], words, &["--", WHARF, "serve"]].concat();
    let result = sandbox.run_with(&words, input).json();
    result["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn every_form_reaches_the_tool() {
    let sandbox = Sandbox::new("forms");
    for (words, input, expected) in [
        (vec!["add", "a=1", "b=-2"], "", "-1"),
        (vec!["add", "a:=1", "b:=2"], "", "3"),
        (vec!["add", r#"{"a": 1, "b": 2}"#], "", "3"),
        (vec!["add", r#"{"a": 1, "b": 2}"#, "b=5"], "", "6"),
        (vec!["add", "a=1", "b=5", r#"{"b": 2}"#], "", "3"),
        (vec!["add", "a=1", "b=5", "b:=2"], "", "3"),
        (vec!["add", "b=5", "-"], r#"{"a": 20, "b": 2}"#, "22"),
        (vec!["add", "-"], r#"{"a": 20, "b": 2}"#, "22"),
        (vec!["add", "-", "b=3"], r#"{"a": 20}"#, "23"),
        (vec!["echo", "text=7"], "", "7"),
        (vec!["echo", "text=a=b {c}"], "", "a=b {c}"),
        (vec!["echo", "text="], "", ""),
        (vec!["echo", r#"text:="\u00e9""#], "", "é"),
        (vec!["set_bonus", "on=yes"], "", "on"),
        (vec!["sleep", "seconds=0.01"], "", "slept"),
    ] {
        assert_eq!(text(&sandbox, &words, input), expected, "{words:?}");
    }
}

#[test]
fn invalid_arguments_are_reported_before_the_call() {
    let sandbox = Sandbox::new("misfits");
    for (words, told) in [
        (vec!["add", "a=x", "b=1"], "a: `x` is not an integer"),
        (vec!["add", "a=1"], "b=integer  The second number."),
        (vec!["add"], "needs these arguments:"),
        (vec!["add", "a=1", "b=2", "c=3"], "has no argument `c`"),
        (vec!["add", "a=1", "a=2", "b=1"], "a is given 2 times"),
        (vec!["add", "nonsense"], "`nonsense` is not an argument"),
        (vec!["add", "a:=x"], "is not valid JSON"),
        (vec!["add", "{"], "cannot be read"),
        (vec!["set_bonus", "on=maybe"], "on: `maybe` is neither true nor false"),
        (vec![], "No tool is given"),
    ] {
        let error = sandbox.demo(&[&["call"], &words[..]].concat()).error(1);
        assert!(error["message"].as_str().unwrap().contains(told), "{words:?}: {error}");
    }
    let error = sandbox.demo(&["call", "wether", "city=x"]).error(1);
    assert_eq!(error["kind"], "tool_not_found");
    assert_eq!(error["hint"], "Did you mean `weather`?");
}

#[test]
fn an_empty_stdin_is_no_object() {
    let sandbox = Sandbox::new("stdin");
    let error = sandbox.demo(&["call", "add", "-"]).error(1);
    assert!(error["message"].as_str().unwrap().contains("stdin"), "{error}");
}
