//! The function's parameters: which are extractors, which are arguments, and what is said of each.
use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, ExprRange, ExprUnary, FnArg, Ident, Lit, LitStr, Pat};
use syn::{PatType, Path, RangeLimits, Signature, Token, Type, UnOp};

use crate::errors::Errors;
use crate::{Kind, docs, types};

/// One parameter, in the order of the signature.
pub(crate) enum Parameter {
    /// Passed on in place.
    Extractor(Box<Type>),
    /// A field of the arguments.
    Argument(Box<Argument>),
}

/// One argument that the client sends.
pub(crate) struct Argument {
    pub(crate) ident: Ident,
    pub(crate) ty: Type,
    /// What goes above the field: description, validation, `#[serde(…)]`, `#[schemars(…)]`.
    pub(crate) attributes: TokenStream,
    /// The expression of `#[default(…)]`.
    pub(crate) default: Option<Expr>,
    pub(crate) completion: Option<Completion>,
    /// The name clients use; none when `#[serde(flatten)]` hides it.
    pub(crate) name: Option<String>,
}

/// What `#[complete(…)]` names.
pub(crate) enum Completion {
    Function(Path),
    Values(Vec<LitStr>),
}

/// Reads the parameters and takes the helper attributes off them.
pub(crate) fn parameters(
    kind: Kind,
    signature: &mut Signature,
    errors: &mut Errors,
) -> Vec<Parameter> {
    let typed = signature.inputs.iter_mut().filter_map(|input| match input {
        FnArg::Typed(parameter) => Some(parameter),
        FnArg::Receiver(_) => None,
    });
    let parameters: Vec<_> = typed.filter_map(|parameter| read(kind, parameter, errors)).collect();
    check_whole(&parameters, errors);
    parameters
}

impl Parameter {
    pub(crate) fn argument(&self) -> Option<&Argument> {
        match self {
            Parameter::Argument(argument) => Some(argument),
            Parameter::Extractor(_) => None,
        }
    }

    /// Whether this extractor reads the arguments itself, so that their names are not known here.
    pub(crate) fn reads_arguments(&self) -> bool {
        self.is_extractor("Args")
    }

    /// Whether this is the URI being read.
    pub(crate) fn reads_uri(&self) -> bool {
        self.is_extractor("Uri")
    }

    fn is_extractor(&self, name: &str) -> bool {
        matches!(self, Parameter::Extractor(ty) if types::is_named(ty, &[name]))
    }
}

const HELPERS: &[&str] =
    &["complete", "default", "doc", "extract", "header", "range", "schemars", "serde"];

fn read(kind: Kind, parameter: &mut PatType, errors: &mut Errors) -> Option<Parameter> {
    let (helpers, kept) = std::mem::take(&mut parameter.attrs)
        .into_iter()
        .partition::<Vec<_>, _>(|attribute| HELPERS.iter().any(|name| is(attribute, name)));
    parameter.attrs = kept;
    for attribute in parameter.attrs.iter().filter(|attribute| is(attribute, "cfg")) {
        errors.at(attribute, "a parameter cannot depend on `cfg`; write two functions");
    }
    let marked = helpers.iter().any(|attribute| is(attribute, "extract"));
    if marked || types::is_extractor(&parameter.ty) {
        refuse_helpers(&helpers, errors);
        refuse_misplaced(kind, &parameter.ty, errors);
        return Some(Parameter::Extractor(parameter.ty.clone()));
    }
    let ident = plain_name(&parameter.pat, errors);
    let owned = types::check_owned(&parameter.ty, errors);
    let argument = Argument::new(kind, ident?, &parameter.ty, &helpers, errors);
    owned.then(|| Parameter::Argument(Box::new(argument)))
}

fn is(attribute: &Attribute, name: &str) -> bool {
    attribute.path().is_ident(name)
}

fn refuse_helpers(helpers: &[Attribute], errors: &mut Errors) {
    for attribute in helpers {
        if !is(attribute, "doc") && !is(attribute, "extract") {
            errors.at(attribute, "this goes on an argument, and this parameter is an extractor");
        }
    }
}

/// Extractors that only some handlers have something for.
const PLACES: &[(&str, &[Kind], &str)] = &[
    ("Completing", &[], "`Completing` belongs in the function that `#[complete(…)]` names"),
    ("RawArgs", &[Kind::Tool], "only a tool's arguments are JSON: take them one by one"),
    ("Uri", &[Kind::Resource], "only a resource is read at a URI"),
];

fn refuse_misplaced(kind: Kind, ty: &Type, errors: &mut Errors) {
    for (name, kinds, text) in PLACES {
        if types::is_named(ty, &[name]) && !kinds.contains(&kind) {
            errors.at(ty, text);
        }
    }
}

fn plain_name(pattern: &Pat, errors: &mut Errors) -> Option<Ident> {
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

/// `Args<T>` is all the arguments, so nothing can stand beside it.
fn check_whole(parameters: &[Parameter], errors: &mut Errors) {
    let wholes = parameters.iter().filter_map(|parameter| match parameter {
        Parameter::Extractor(ty) if types::is_named(ty, &["Args"]) => Some(ty),
        _ => None,
    });
    if wholes.clone().next().is_none() {
        return;
    }
    for second in wholes.skip(1) {
        errors.at(second, "`Args<T>` holds every argument, so it stands only once");
    }
    for argument in parameters.iter().filter_map(Parameter::argument) {
        errors.at(&argument.ident, "`Args<T>` holds every argument: move this one into its struct");
    }
}

impl Argument {
    fn new(
        kind: Kind,
        ident: Ident,
        ty: &Type,
        helpers: &[Attribute],
        errors: &mut Errors,
    ) -> Argument {
        let description = docs::description(helpers);
        let mut argument = Argument {
            name: Some(ident.unraw().to_string()),
            ident,
            ty: ty.clone(),
            // The space is the one that `///` leaves before its text.
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
            errors.at(&argument.ident, "what is flattened has no name of its own to complete");
        }
        argument
    }

    fn accept(&mut self, kind: Kind, helper: &Attribute) -> syn::Result<()> {
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

    /// Passes the attribute on, and learns from it what clients call this argument.
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

/// Skips `= value` or `(…)`: serde's own derive reads it.
fn skip_value(input: syn::parse::ParseStream<'_>) -> syn::Result<()> {
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<proc_macro2::TokenTree>()?;
    }
    Ok(())
}

/// The function that `#[default(…)]` becomes.
pub(crate) fn default_function(ident: &Ident) -> Ident {
    format_ident!("__default_{}", ident.unraw())
}

fn completion(kind: Kind, helper: &Attribute) -> syn::Result<Completion> {
    let fail = |text| Err(syn::Error::new_spanned(helper, text));
    if kind == Kind::Tool {
        return fail("MCP completes the arguments of prompts and templates, not those of tools");
    }
    let items = helper.parse_args_with(Punctuated::<Expr, Token![,]>::parse_terminated)?;
    let values: Option<Vec<LitStr>> = items.iter().map(literal).collect();
    match (values, items.first(), items.len()) {
        (Some(values), Some(_), _) => Ok(Completion::Values(values)),
        (None, Some(Expr::Path(path)), 1) => Ok(Completion::Function(path.path.clone())),
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

/// `#[default]` is the type's own default, `#[default(expression)]` that one.
fn default(helper: &Attribute) -> syn::Result<Option<Expr>> {
    match &helper.meta {
        syn::Meta::Path(_) => Ok(None),
        _ => helper.parse_args().map(Some),
    }
}

fn header(kind: Kind, helper: &Attribute) -> syn::Result<TokenStream> {
    if kind != Kind::Tool {
        return Err(syn::Error::new_spanned(helper, "only a tool's arguments travel as headers"));
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

/// The number that a literal is, with its sign.
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
