//! Classifies parameter types: extractors, owned types.
use syn::{GenericArgument, PathArguments, PathSegment, Type};

use quote::ToTokens;

use crate::errors::CompileErrors;

/// Extractors with a type parameter. The same name without one is a type of the application.
const GENERIC_EXTRACTORS: &[&str] = &["Args", "Extension", "State"];
const PLAIN_EXTRACTORS: &[&str] = &["CompletionRequest", "Ctx", "Principal", "RawArgs", "Uri"];
const OPTIONAL_EXTRACTORS: &[&str] = &["Extension", "Principal"];

pub(crate) fn is_extractor(ty: &Type) -> bool {
    let Some(segment) = last_segment(ty) else { return false };
    match inner(segment) {
        None => PLAIN_EXTRACTORS.iter().any(|name| segment.ident == name),
        Some(inner) if segment.ident == "Option" => {
            is_extractor(inner) && is_named(inner, OPTIONAL_EXTRACTORS)
        }
        Some(_) => GENERIC_EXTRACTORS.iter().any(|name| segment.ident == name),
    }
}

/// True if the last segment of the type's path is one of `names`.
pub(crate) fn is_named(ty: &Type, names: &[&str]) -> bool {
    last_segment(ty).is_some_and(|segment| names.iter().any(|name| segment.ident == name))
}

fn last_segment(ty: &Type) -> Option<&PathSegment> {
    match ty {
        Type::Path(path) => path.path.segments.last(),
        Type::Paren(paren) => last_segment(&paren.elem),
        Type::Group(group) => last_segment(&group.elem),
        _ => None,
    }
}

/// `T` of `Name<T>`.
fn inner(segment: &PathSegment) -> Option<&Type> {
    let PathArguments::AngleBracketed(generics) = &segment.arguments else { return None };
    generics.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
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
