//! Parses the function's parameters: extractors, and arguments with their helper attributes.
use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, ExprRange, ExprUnary, FnArg, Ident, Lit, LitStr, Pat};
use syn::{PatType, Path, RangeLimits, Signature, Token, Type, UnOp};

use crate::errors::CompileErrors;
use crate::{AttributeKind, check, docs, extractor_types};

/// A parameter of the handler, in the order of the signature.
pub(crate) enum HandlerParameter {
    /// An extractor, by its type.
    Extractor(Box<Type>),
    /// A field of the generated arguments struct.
    Argument(Box<ArgumentField>),
}

/// An argument that the client sends by name.
pub(crate) struct ArgumentField {
    pub(crate) ident: Ident,
    pub(crate) ty: Type,
    /// Attributes of the generated field: description, validation, `#[serde(…)]`, `#[schemars(…)]`.
    pub(crate) attributes: TokenStream,
    /// The expression of `#[default(…)]`.
    pub(crate) default: Option<Expr>,
    pub(crate) completion: Option<CompletionSource>,
    /// Name that clients use; `None` for a field with `#[serde(flatten)]`.
    pub(crate) name: Option<String>,
}

/// Source of completions that `#[complete(…)]` names.
pub(crate) enum CompletionSource {
    Function(Path),
    Values(Vec<LitStr>),
}

/// Parses the parameters and removes the helper attributes from them.
pub(crate) fn parameters(
    kind: AttributeKind,
    signature: &mut Signature,
    errors: &mut CompileErrors,
) -> Vec<HandlerParameter> {
    let typed = signature.inputs.iter_mut().filter_map(|input| match input {
        FnArg::Typed(parameter) => Some(parameter),
        FnArg::Receiver(_) => None,
    });
    let parameters: Vec<_> =
        typed.filter_map(|parameter| parse_parameter(kind, parameter, errors)).collect();
    check_args_extractor(&parameters, errors);
    parameters
}

impl HandlerParameter {
    pub(crate) fn argument(&self) -> Option<&ArgumentField> {
        match self {
            HandlerParameter::Argument(argument) => Some(argument),
            HandlerParameter::Extractor(_) => None,
        }
    }

    pub(crate) fn extractor(&self) -> Option<&Type> {
        match self {
            HandlerParameter::Extractor(ty) => Some(ty),
            HandlerParameter::Argument(_) => None,
        }
    }

    /// True for `Args<T>`, which decodes all arguments, so their names are unknown to the macro.
    pub(crate) fn reads_arguments(&self) -> bool {
        self.is_extractor("Args")
    }

    /// True for `Uri`, the URI that the client reads.
    pub(crate) fn reads_uri(&self) -> bool {
        self.is_extractor("Uri")
    }

    fn is_extractor(&self, name: &str) -> bool {
        self.extractor().is_some_and(|ty| extractor_types::is_named(ty, &[name]))
    }
}

const HELPER_ATTRIBUTES: &[&str] =
    &["complete", "default", "doc", "extract", "header", "range", "schemars", "serde"];

fn parse_parameter(
    kind: AttributeKind,
    parameter: &mut PatType,
    errors: &mut CompileErrors,
) -> Option<HandlerParameter> {
    let (helpers, kept) =
        std::mem::take(&mut parameter.attrs).into_iter().partition::<Vec<_>, _>(|attribute| {
            HELPER_ATTRIBUTES.iter().any(|name| is(attribute, name))
        });
    parameter.attrs = kept;
    for attribute in parameter.attrs.iter().filter(|attribute| is(attribute, "cfg")) {
        errors.at(attribute, "a parameter cannot depend on `cfg`; write two functions");
    }
    let marked = helpers.iter().any(|attribute| is(attribute, "extract"));
    if marked || extractor_types::is_extractor(&parameter.ty) {
        reject_helpers(&helpers, errors);
        reject_misplaced(kind, &parameter.ty, errors);
        return Some(HandlerParameter::Extractor(parameter.ty.clone()));
    }
    let ident = argument_name(&parameter.pat, errors);
    let owned = check::check_owned(&parameter.ty, errors);
    let argument = ArgumentField::new(kind, ident?, &parameter.ty, &helpers, errors);
    owned.then(|| HandlerParameter::Argument(Box::new(argument)))
}

fn is(attribute: &Attribute, name: &str) -> bool {
    attribute.path().is_ident(name)
}

fn reject_helpers(helpers: &[Attribute], errors: &mut CompileErrors) {
    for attribute in helpers {
        if !is(attribute, "doc") && !is(attribute, "extract") {
            errors.at(attribute, "this goes on an argument, and this parameter is an extractor");
        }
    }
}

/// Extractors that are available to some kinds of handler only, and the error for the others.
const KIND_RESTRICTIONS: &[(&str, &[AttributeKind], &str)] = &[
    (
        "CompletionRequest",
        &[],
        "`CompletionRequest` belongs in the function that `#[complete(…)]` names",
    ),
    ("RawArgs", &[AttributeKind::Tool], "only a tool's arguments are JSON: take them one by one"),
    ("Uri", &[AttributeKind::Resource], "only a resource is read at a URI"),
];

fn reject_misplaced(kind: AttributeKind, ty: &Type, errors: &mut CompileErrors) {
    for (name, kinds, text) in KIND_RESTRICTIONS {
        if extractor_types::is_named(ty, &[name]) && !kinds.contains(&kind) {
            errors.at(ty, text);
        }
    }
}

fn argument_name(pattern: &Pat, errors: &mut CompileErrors) -> Option<Ident> {
    let text = match pattern {
        Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => {
            return Some(name.ident.clone());
        }
        Pat::Wild(_) => "an argument needs a name: clients send it by name",
        Pat::TupleStruct(_) => {
            "an argument needs a plain name; a struct of arguments is `Args(x): Args<T>`, \
             and an extractor of your own is marked `#[extract]`"
        }
        _ => "an argument needs a plain name; take it apart inside the function",
    };
    errors.at(pattern, text);
    None
}

/// Rejects other arguments beside `Args<T>`, which already contains all of them.
fn check_args_extractor(parameters: &[HandlerParameter], errors: &mut CompileErrors) {
    let args_extractors = parameters.iter().filter_map(|parameter| match parameter {
        HandlerParameter::Extractor(ty) if extractor_types::is_named(ty, &["Args"]) => Some(ty),
        _ => None,
    });
    if args_extractors.clone().next().is_none() {
        return;
    }
    for second in args_extractors.skip(1) {
        errors.at(second, "`Args<T>` holds every argument, so it can appear only once");
    }
    for argument in parameters.iter().filter_map(HandlerParameter::argument) {
        errors.at(&argument.ident, "`Args<T>` holds every argument: move this one into its struct");
    }
}

impl ArgumentField {
    fn new(
        kind: AttributeKind,
        ident: Ident,
        ty: &Type,
        helpers: &[Attribute],
        errors: &mut CompileErrors,
    ) -> ArgumentField {
        let description = docs::description(helpers);
        let mut argument = ArgumentField {
            name: Some(ident.unraw().to_string()),
            ident,
            ty: ty.clone(),
            // The leading space imitates `///`, which leaves one before its text.
            attributes: description
                .map(|text| format!(" {text}"))
                .map_or_else(TokenStream::new, |text| quote!(#[doc = #text])),
            default: None,
            completion: None,
        };
        for (index, helper) in helpers.iter().enumerate() {
            let once =
                ["complete", "default", "header", "range"].iter().find(|name| is(helper, name));
            if once.is_some_and(|name| helpers[..index].iter().any(|earlier| is(earlier, name))) {
                errors.at(helper, "this attribute is given twice");
            } else if !is(helper, "doc") {
                errors.keep(argument.accept(kind, helper));
            }
        }
        if argument.name.is_none() && argument.completion.is_some() {
            errors.at(&argument.ident, "a flattened field has no name, so it cannot be completed");
        }
        argument
    }

    fn accept(&mut self, kind: AttributeKind, helper: &Attribute) -> syn::Result<()> {
        let name = helper.path().require_ident()?.to_string();
        match name.as_str() {
            "complete" => self.completion = Some(completion(kind, helper)?),
            "default" => self.default = default(helper)?,
            "header" => self.attributes.extend(header(kind, helper)?),
            "range" => self.attributes.extend(range(helper)?),
            "serde" => self.pass_serde(helper)?,
            _ => helper.to_tokens(&mut self.attributes),
        }
        if name == "default" {
            self.attributes.extend(match &self.default {
                Some(_) => {
                    let function = default_function(&self.ident).to_string();
                    quote!(#[serde(default = #function)])
                }
                None => quote!(#[serde(default)]),
            });
        }
        Ok(())
    }

    /// Copies the attribute to the field and reads the argument's serialized name from it.
    fn pass_serde(&mut self, helper: &Attribute) -> syn::Result<()> {
        helper.to_tokens(&mut self.attributes);
        helper.parse_nested_meta(|meta| {
            if meta.path.is_ident("flatten") {
                self.name = None;
            } else if meta.path.is_ident("rename") && meta.input.peek(Token![=]) {
                self.name = Some(meta.value()?.parse::<LitStr>()?.value());
            } else if !meta.input.is_empty() && !meta.input.peek(Token![,]) {
                skip_value(meta.input)?;
            }
            Ok(())
        })
    }
}

/// Skips `= value` or `(…)`, which serde's own derive parses.
fn skip_value(input: syn::parse::ParseStream<'_>) -> syn::Result<()> {
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<proc_macro2::TokenTree>()?;
    }
    Ok(())
}

/// Name of the function that is generated for `#[default(…)]`.
pub(crate) fn default_function(ident: &Ident) -> Ident {
    format_ident!("__default_{}", ident.unraw())
}

fn completion(kind: AttributeKind, helper: &Attribute) -> syn::Result<CompletionSource> {
    let fail = |text| Err(syn::Error::new_spanned(helper, text));
    if kind == AttributeKind::Tool {
        return fail("MCP completes the arguments of prompts and templates, not those of tools");
    }
    let items = helper.parse_args_with(Punctuated::<Expr, Token![,]>::parse_terminated)?;
    let values: Option<Vec<LitStr>> = items.iter().map(literal).collect();
    match (values, items.first(), items.len()) {
        (Some(values), Some(_), _) => Ok(CompletionSource::Values(values)),
        (None, Some(Expr::Path(path)), 1) => Ok(CompletionSource::Function(path.path.clone())),
        _ => fail(
            "write one function, `#[complete(cities)]`, or values, `#[complete(\"a\", \"b\")]`",
        ),
    }
}

fn literal(expression: &Expr) -> Option<LitStr> {
    match expression {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.clone()),
        _ => None,
    }
}

/// Parses `#[default]` (the type's `Default`) or `#[default(expression)]`.
fn default(helper: &Attribute) -> syn::Result<Option<Expr>> {
    match &helper.meta {
        syn::Meta::Path(_) => Ok(None),
        _ => helper.parse_args().map(Some),
    }
}

fn header(kind: AttributeKind, helper: &Attribute) -> syn::Result<TokenStream> {
    if kind != AttributeKind::Tool {
        return Err(syn::Error::new_spanned(
            helper,
            "only a tool's arguments can be sent as headers",
        ));
    }
    let name: LitStr = helper.parse_args()?;
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.value().is_empty() || !name.value().chars().all(is_token) {
        return Err(syn::Error::new_spanned(name, "this is not the name of an HTTP header"));
    }
    Ok(quote!(#[schemars(extend("x-mcp-header" = #name))]))
}

fn range(helper: &Attribute) -> syn::Result<TokenStream> {
    let range: ExprRange =
        helper.parse_args_with(|input: syn::parse::ParseStream<'_>| match input.parse()? {
            Expr::Range(range) if range.start.is_some() || range.end.is_some() => Ok(range),
            other => Err(syn::Error::new_spanned(other, "expected a range, as in `1..=10`")),
        })?;
    if let (Some(low), Some(high)) = (range.start.as_deref(), range.end.as_deref())
        && let (Some(least), Some(most)) = (number(low), number(high))
    {
        let is_open = matches!(range.limits, RangeLimits::HalfOpen(_));
        if least > most || (is_open && least == most) {
            return Err(syn::Error::new_spanned(&range, "no number is in this range"));
        }
    }
    let low = range.start.map(|low| quote!(#[schemars(extend("minimum" = #low))]));
    let key = match range.limits {
        RangeLimits::HalfOpen(_) => "exclusiveMaximum",
        RangeLimits::Closed(_) => "maximum",
    };
    let high = range.end.map(|high| quote!(#[schemars(extend(#key = #high))]));
    Ok(quote!(#low #high))
}

/// Value of a numeric literal with an optional sign.
fn number(expression: &Expr) -> Option<f64> {
    match expression {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => number.base10_parse().ok(),
        Expr::Lit(ExprLit { lit: Lit::Float(number), .. }) => number.base10_parse().ok(),
        Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) => number(expr).map(|it| -it),
        Expr::Paren(inner) => number(&inner.expr),
        Expr::Group(inner) => number(&inner.expr),
        _ => None,
    }
}
