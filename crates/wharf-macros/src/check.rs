//! What must hold of a function before anything is made of it.
use syn::{Safety, Signature};

use crate::args::Parameter;
use crate::errors::Errors;
use crate::options::{self, Options};
use crate::{Kind, template};

/// Only a free, concrete function can become one thing with one schema.
pub(crate) fn signature(kind: Kind, signature: &Signature, options: &Options, errors: &mut Errors) {
    if let Some(receiver) = signature.receiver() {
        errors.at(
            receiver,
            format!("{kind} goes on a free function; what `self` holds comes in as `State<T>`"),
        );
    }
    if !signature.generics.params.is_empty() {
        let text = match signature.generics.lifetimes().next() {
            Some(_) => "arguments are owned: this function needs no lifetimes".to_owned(),
            None => format!("{kind} needs concrete types: one function, one schema"),
        };
        errors.at(&signature.generics, text);
    }
    let plain = "a handler is a plain `fn` or an `async fn`";
    if let Some(word) = &signature.constness {
        errors.at(word, plain);
    }
    if !matches!(signature.safety, Safety::Default) {
        errors.at(&signature.safety, plain);
    }
    if let Some(abi) = &signature.abi {
        errors.at(abi, plain);
    }
    if let Some(variadic) = &signature.variadic {
        errors.at(variadic, plain);
    }
    if let (Some(cheap), Some(_)) = (&options.cheap, &signature.asyncness) {
        errors.at(cheap, "an `async fn` runs in place anyway: `cheap` is for a plain `fn`");
    }
}

/// The URI is well formed, and its variables are the function's parameters.
pub(crate) fn uri(options: &Options, parameters: &[Parameter], errors: &mut Errors) {
    let Some(uri) = &options.uri else {
        let text = "which URI? Write `#[resource(\"notes://today\")]` or a template, \
                    `#[resource(\"notes://{name}\")]`";
        return options::missing(errors, text);
    };
    let text = uri.value();
    let variables = match template::variables(&text) {
        Ok(variables) => variables,
        Err(problem) => return errors.at(uri, problem),
    };
    if let (Some(size), false) = (&options.size, variables.is_empty()) {
        errors.at(size, "a template stands for many resources: it has no `size`");
    }
    let arguments = || parameters.iter().filter_map(Parameter::argument);
    let names: Option<Vec<&str>> = arguments().map(|argument| argument.name.as_deref()).collect();
    // What `Args<T>` or a flattened field holds is known at build time only.
    let Some(names) = names.filter(|_| !parameters.iter().any(Parameter::reads_arguments)) else {
        return;
    };
    // Who reads the whole URI needs no variables.
    if names.is_empty() && parameters.iter().any(Parameter::reads_uri) {
        return;
    }
    for missing in variables.iter().filter(|variable| !names.contains(variable)) {
        let others = list(&names, "it has no parameters", "its parameters are");
        errors.at(uri, format!("no parameter of the function is called `{missing}`; {others}"));
    }
    for (argument, name) in arguments().zip(&names) {
        if !variables.contains(name) {
            let others = list(&variables, "it has no variables", "its variables are");
            errors.at(
                &argument.ident,
                format!("`{name}` is not in the template \"{text}\"; {others}"),
            );
        }
    }
}

fn list(names: &[&str], none: &str, some: &str) -> String {
    match names {
        [] => none.to_owned(),
        names => format!("{some} `{}`", names.join("`, `")),
    }
}
