//! Validates the function's signature, its parameters and the resource URI before code is generated.
use quote::ToTokens;
use syn::{GenericArgument, PathArguments, PathSegment, Safety, Signature, Type};

use crate::errors::CompileErrors;
use crate::extractor_types::last_segment;
use crate::options::{self, AttributeOptions};
use crate::parameters::HandlerParameter;
use crate::{AttributeKind, template};

/// Checks that the function is free and concrete, so that it has exactly one schema.
pub(crate) fn signature(
    kind: AttributeKind,
    signature: &Signature,
    options: &AttributeOptions,
    errors: &mut CompileErrors,
) {
    if let Some(receiver) = signature.receiver() {
        errors.at(
            receiver,
            format!("{kind} goes on a free function; pass the state of `self` as `State<T>`"),
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

/// Checks that an argument type is owned and concrete, because arguments are decoded into values.
pub(crate) fn check_owned(ty: &Type, errors: &mut CompileErrors) -> bool {
    match ty {
        Type::Reference(reference) => {
            let text = match owned_type(&reference.elem) {
                Some(owned) => format!("take `{owned}`: arguments are owned"),
                None => "take it by value: arguments are owned".to_owned(),
            };
            errors.at(ty, text);
            false
        }
        Type::ImplTrait(_) => {
            errors.at(ty, "name a concrete type: clients need one schema, `impl Trait` has none");
            false
        }
        Type::Array(array) => check_owned(&array.elem, errors),
        Type::Slice(slice) => check_owned(&slice.elem, errors),
        Type::Paren(paren) => check_owned(&paren.elem, errors),
        Type::Group(group) => check_owned(&group.elem, errors),
        Type::Tuple(tuple) => tuple.elems.iter().all(|elem| check_owned(elem, errors)),
        Type::Path(path) => path.path.segments.iter().all(|segment| check_segment(segment, errors)),
        _ => true,
    }
}

fn check_segment(segment: &PathSegment, errors: &mut CompileErrors) -> bool {
    let PathArguments::AngleBracketed(generics) = &segment.arguments else { return true };
    generics.args.iter().all(|argument| match argument {
        GenericArgument::Type(ty) => check_owned(ty, errors),
        GenericArgument::Lifetime(lifetime) if lifetime.ident != "static" => {
            errors.at(lifetime, "arguments are owned: use a type without a lifetime, or `'static`");
            false
        }
        _ => true,
    })
}

/// Owned type to suggest in place of a reference to `ty`.
fn owned_type(ty: &Type) -> Option<String> {
    if let Type::Slice(slice) = ty {
        return Some(format!("Vec<{}>", slice.elem.to_token_stream()));
    }
    let name = last_segment(ty)?.ident.to_string();
    let owned = match name.as_str() {
        "str" => "String".to_owned(),
        "Path" => "PathBuf".to_owned(),
        _ => ty.to_token_stream().to_string(),
    };
    Some(owned)
}

/// Checks that the URI is well formed and that its variables match the function's parameters.
pub(crate) fn uri(
    options: &AttributeOptions,
    parameters: &[HandlerParameter],
    errors: &mut CompileErrors,
) {
    let Some(uri) = &options.uri else {
        let text = "missing URI: write `#[resource(\"notes://today\")]` or a template, \
                    `#[resource(\"notes://{name}\")]`";
        return options::missing(errors, text);
    };
    let text = uri.value();
    let variables = match template::variables(&text) {
        Ok(variables) => variables,
        Err(problem) => return errors.at(uri, problem),
    };
    if let (Some(size), false) = (&options.size, variables.is_empty()) {
        errors.at(size, "a template describes many resources, so it has no `size`");
    }
    let arguments = || parameters.iter().filter_map(HandlerParameter::argument);
    let names: Option<Vec<&str>> = arguments().map(|argument| argument.name.as_deref()).collect();
    // The fields of `Args<T>` or of a flattened field are known only when the router is built.
    let Some(names) = names.filter(|_| !parameters.iter().any(HandlerParameter::reads_arguments))
    else {
        return;
    };
    // A handler that takes the whole `Uri` needs no parameter for each variable.
    if names.is_empty() && parameters.iter().any(HandlerParameter::reads_uri) {
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
