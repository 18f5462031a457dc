//! Rules of the registry for values that users enter: arguments, environment variables, headers, variables.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::registry::{
    remotes,
    report::{PublishReport, member, objects, required, text},
    server_json::one_of,
};

/// Formats of an input.
const FORMATS: [&str; 4] = ["string", "number", "boolean", "filepath"];
/// Members with arguments.
const ARGUMENTS: [&str; 2] = ["runtimeArguments", "packageArguments"];

/// Checks arguments and environment variables of a package.
pub(super) fn check_package(path: &str, package: &Value, report: &mut PublishReport) {
    for key in ARGUMENTS {
        for (path, argument) in objects(package, key, path, report) {
            check_argument(&path, argument, report);
        }
    }
    let runtime = package.get("runtimeArguments").and_then(Value::as_array);
    if runtime.is_some_and(|it| !it.is_empty()) && package.get("runtimeHint").is_none() {
        let fix = "name the program that gets them, such as npx or docker";
        report.warning(member(path, "runtimeHint"), "runtimeArguments need it", fix);
    }
    let mut names = BTreeSet::new();
    for (path, variable) in objects(package, "environmentVariables", path, report) {
        if let Some(name) = required(variable, "name", &path, report)
            && !names.insert(name)
        {
            report.error(
                member(&path, "name"),
                format!("{name} is there twice"),
                "remove one of them",
            );
        }
        check_value(&path, variable, report);
    }
}

/// Names that the URL of a package's transport may have as variables.
pub(super) fn variables_of(package: &Value) -> Vec<&str> {
    let of = |key: &str, member: &'static str| {
        let values = package.get(key).and_then(Value::as_array).into_iter().flatten();
        values.filter_map(move |it| it[member].as_str()).collect::<Vec<&str>>()
    };
    let arguments = ARGUMENTS.into_iter().flat_map(|key| [of(key, "name"), of(key, "valueHint")]);
    arguments.flatten().chain(of("environmentVariables", "name")).collect()
}

/// Checks the headers of a transport.
pub(super) fn check_headers(path: &str, transport: &Value, report: &mut PublishReport) {
    for (path, header) in remotes::headers(path, transport, report) {
        required(header, "name", &path, report);
        check_value(&path, header, report);
    }
}

fn check_argument(path: &str, argument: &Value, report: &mut PublishReport) {
    match required(argument, "type", path, report) {
        Some("named") => {
            if let Some(name) = required(argument, "name", path, report) {
                check_named(path, name, argument, report);
            }
        }
        Some("positional") => {
            let given = ["value", "valueHint"].iter().any(|key| argument.get(*key).is_some());
            if !given {
                let fix = "add `value` for a fixed one, `valueHint` for one that the user enters";
                report.error(path, "a positional argument needs a value", fix);
            }
        }
        Some(kind) => {
            let message = format!("{kind:?} is not allowed");
            report.error(member(path, "type"), message, "write named or positional");
        }
        None => {}
    }
    check_value(path, argument, report);
}

/// Checks the name of an argument, which must not contain its value.
fn check_named(path: &str, name: &str, argument: &Value, report: &mut PublishReport) {
    if name.contains(['<', '>', ' ', '$']) {
        let fix = "write the name only, such as --port, and the value as `value`";
        report.error(member(path, "name"), format!("{name:?} is not a name"), fix);
    }
    for key in ["value", "default"] {
        if argument[key].as_str().is_some_and(|value| !value.is_empty() && value.starts_with(name))
        {
            let message = format!("it begins with the name {name:?}");
            report.error(member(path, key), message, "write the value only");
        }
    }
}

/// Checks a value, and the variables that it has.
fn check_value(path: &str, input: &Value, report: &mut PublishReport) {
    check_input(path, input, report);
    let variables = input.get("variables").and_then(Value::as_object);
    for (name, variable) in variables.into_iter().flatten() {
        check_input(&member(path, &format!("variables.{name}")), variable, report);
    }
}

/// Checks an input.
pub(super) fn check_input(path: &str, input: &Value, report: &mut PublishReport) {
    one_of(input, "format", path, &FORMATS, report);
    for key in ["description", "default", "placeholder", "value", "valueHint"] {
        text(input, key, path, report);
    }
    for key in ["isRequired", "isSecret", "isRepeated"] {
        if let Some(value) = input.get(key).filter(|it| !it.is_boolean()) {
            report.error(
                member(path, key),
                format!("{value} is not true or false"),
                "write true or false",
            );
        }
    }
    if let Some(choices) = input.get("choices") {
        let is_texts = choices.as_array().is_some_and(|it| it.iter().all(Value::is_string));
        if !is_texts {
            report.error(
                member(path, "choices"),
                "they are not an array of strings",
                "write [\"a\", \"b\"]",
            );
        }
    }
    if input["isSecret"] == true
        && input.get("value").is_some_and(|it| !it.as_str().is_some_and(|it| it.contains('{')))
    {
        let fix = "remove `value`: the file is public, and the user enters the secret";
        report.error(member(path, "value"), "a secret has a value", fix);
    }
}
