//! Classifies parameter types: extractors, or arguments.
use syn::{GenericArgument, PathArguments, PathSegment, Type};

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

pub(crate) fn last_segment(ty: &Type) -> Option<&PathSegment> {
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
