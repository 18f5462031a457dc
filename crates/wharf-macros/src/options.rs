//! Parses the attribute's options: one table, each option a builder call.
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Expr, ExprLit, Ident, Lit, LitStr, Path, Token, parse_quote};

use crate::AttributeKind;
use crate::app::AppOptions;
use crate::errors::CompileErrors;
use crate::task::TaskOptions;

/// Parsed options of one attribute.
pub(crate) struct AttributeOptions {
    /// The first, unnamed literal: a resource's URI or template.
    pub(crate) uri: Option<LitStr>,
    pub(crate) name: Option<Expr>,
    pub(crate) description: Option<Expr>,
    /// The identifier `cheap`, kept for error messages.
    pub(crate) cheap: Option<Ident>,
    /// The identifier `size`, kept for error messages.
    pub(crate) size: Option<Ident>,
    /// Path of the facade crate: `::wharf` unless `crate = path` replaces it.
    pub(crate) root: Path,
    tasks: TaskOptions,
    pub(crate) app: AppOptions,
    /// Builder calls, such as `.title("…")`, in the order they were written.
    pub(crate) setters: Vec<TokenStream>,
}

#[derive(Clone, Copy)]
enum OptionShape {
    Name,
    Description,
    Text,
    Flag,
    OpenWorld,
    Cheap,
    Timeout,
    Icon,
    Audience,
    Priority,
    Size,
    Crate,
    Task,
    After,
    Scopes,
    App,
    Visibility,
}

struct OptionSpec {
    name: &'static str,
    shape: OptionShape,
    kinds: &'static [AttributeKind],
}

const fn spec(
    name: &'static str,
    shape: OptionShape,
    kinds: &'static [AttributeKind],
) -> OptionSpec {
    OptionSpec { name, shape, kinds }
}

const ALL_KINDS: &[AttributeKind] =
    &[AttributeKind::Tool, AttributeKind::Resource, AttributeKind::Prompt];
const TOOL_ONLY: &[AttributeKind] = &[AttributeKind::Tool];
const RESOURCE_ONLY: &[AttributeKind] = &[AttributeKind::Resource];

const OPTIONS: &[OptionSpec] = &[
    spec("name", OptionShape::Name, ALL_KINDS),
    spec("title", OptionShape::Text, ALL_KINDS),
    spec("description", OptionShape::Description, ALL_KINDS),
    spec("icon", OptionShape::Icon, ALL_KINDS),
    spec("timeout", OptionShape::Timeout, ALL_KINDS),
    spec("cheap", OptionShape::Cheap, ALL_KINDS),
    spec("read_only", OptionShape::Flag, TOOL_ONLY),
    spec("destructive", OptionShape::Flag, TOOL_ONLY),
    spec("idempotent", OptionShape::Flag, TOOL_ONLY),
    spec("open_world", OptionShape::OpenWorld, TOOL_ONLY),
    spec("closed_world", OptionShape::Flag, TOOL_ONLY),
    spec("mime", OptionShape::Text, RESOURCE_ONLY),
    spec("size", OptionShape::Size, RESOURCE_ONLY),
    spec("audience", OptionShape::Audience, RESOURCE_ONLY),
    spec("priority", OptionShape::Priority, RESOURCE_ONLY),
    spec("task", OptionShape::Task, TOOL_ONLY),
    spec("after", OptionShape::After, TOOL_ONLY),
    spec("crate", OptionShape::Crate, ALL_KINDS),
    spec("scope", OptionShape::Scopes, ALL_KINDS),
    spec("app", OptionShape::App, TOOL_ONLY),
    spec("visibility", OptionShape::Visibility, TOOL_ONLY),
];

/// Pairs of options that exclude each other, with the reason.
const CONFLICTS: &[(&str, &str, &str)] = &[
    ("read_only", "destructive", "a read-only tool destroys nothing"),
    ("open_world", "closed_world", "a tool's world is either open or closed"),
];

impl AttributeOptions {
    pub(crate) fn parse(
        kind: AttributeKind,
        tokens: TokenStream,
        errors: &mut CompileErrors,
    ) -> AttributeOptions {
        let mut options = AttributeOptions {
            uri: None,
            name: None,
            description: None,
            cheap: None,
            size: None,
            root: parse_quote!(::wharf),
            tasks: TaskOptions::default(),
            app: AppOptions::default(),
            setters: Vec::new(),
        };
        let items = Punctuated::<OptionItem, Token![,]>::parse_terminated.parse2(tokens);
        let mut seen = Vec::new();
        let items = errors.keep(items).into_iter().flatten();
        for (position, item) in items.enumerate() {
            match item {
                OptionItem::Literal(uri) => options.accept_uri(kind, position, uri, errors),
                OptionItem::Option(word, value) => {
                    options.accept(kind, &word, value, errors);
                    check_conflicts(&word, &seen, errors);
                    seen.push(word);
                }
            }
        }
        let task = options.tasks.setter(&options.root, errors);
        options.setters.extend(task);
        options
    }

    fn accept_uri(
        &mut self,
        kind: AttributeKind,
        position: usize,
        uri: LitStr,
        errors: &mut CompileErrors,
    ) {
        match kind {
            AttributeKind::Resource if position == 0 => self.uri = Some(uri),
            AttributeKind::Resource => {
                errors.at(&uri, "the URI must come first, and only one is allowed");
                self.uri.get_or_insert(uri);
            }
            _ => errors.at(
                &uri,
                format!("{kind} takes options, such as `name = {}`", uri.to_token_stream()),
            ),
        }
    }

    fn accept(
        &mut self,
        kind: AttributeKind,
        word: &Ident,
        value: Option<Expr>,
        errors: &mut CompileErrors,
    ) {
        let Some(option) = find(kind, word) else {
            errors.at(word, unknown(kind, word));
            return;
        };
        let setter = match option.shape {
            OptionShape::Name => text(word, value).map(|text| {
                self.name = Some(text);
                None
            }),
            OptionShape::Description => text(word, value).map(|text| {
                self.description = Some(text);
                None
            }),
            OptionShape::Cheap => flag(word, value.as_ref()).map(|()| {
                self.cheap = Some(word.clone());
                None
            }),
            OptionShape::Crate => path(word, value).map(|path| {
                self.root = path;
                None
            }),
            OptionShape::Size => integer(word, value).map(|size| {
                self.size = Some(word.clone());
                Some(quote!(.size(#size)))
            }),
            OptionShape::Text => text(word, value).map(|text| Some(quote!(.#word(#text)))),
            OptionShape::Flag => flag(word, value.as_ref()).map(|()| Some(quote!(.#word()))),
            OptionShape::OpenWorld => {
                flag(word, value.as_ref()).map(|()| Some(quote!(.#word(true))))
            }
            OptionShape::Timeout => timeout(word, value).map(Some),
            OptionShape::Priority => priority(word, value).map(Some),
            OptionShape::Icon => self.icon(word, value).map(Some),
            OptionShape::Audience => self.audience(word, value).map(Some),
            OptionShape::Task => self.tasks.mode(word, value).map(|()| None),
            OptionShape::After => self.tasks.start(word, value).map(|()| None),
            OptionShape::Scopes => scopes(word, value).map(Some),
            OptionShape::App => self.app.page(word, value).map(|()| None),
            OptionShape::Visibility => self.app.visibility(word, value).map(|()| None),
        };
        self.setters.extend(errors.keep(setter).flatten());
    }

    fn icon(&self, word: &Ident, value: Option<Expr>) -> syn::Result<TokenStream> {
        let (root, source) = (&self.root, text(word, value)?);
        Ok(quote!(.icon(#root::__private::Icon::new(#source))))
    }

    fn audience(&self, word: &Ident, value: Option<Expr>) -> syn::Result<TokenStream> {
        let root = &self.root;
        let role = string(word, value)?;
        match role.value().as_str() {
            "user" => Ok(quote!(.audience(#root::__private::Role::User))),
            "assistant" => Ok(quote!(.audience(#root::__private::Role::Assistant))),
            _ => Err(syn::Error::new_spanned(
                role,
                "the audience is \"user\" or \"assistant\"; leave it out for both",
            )),
        }
    }
}

/// `"literal"`, `word` or `word = value`.
enum OptionItem {
    Literal(LitStr),
    Option(Ident, Option<Expr>),
}

impl Parse for OptionItem {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.peek(LitStr) {
            return input.parse().map(OptionItem::Literal);
        }
        let word = Ident::parse_any(input)?;
        let value = match input.parse::<Option<Token![=]>>()? {
            Some(_) => Some(input.parse()?),
            None => None,
        };
        Ok(OptionItem::Option(word, value))
    }
}

fn find(kind: AttributeKind, word: &Ident) -> Option<&'static OptionSpec> {
    OPTIONS.iter().find(|option| word == option.name && option.kinds.contains(&kind))
}

fn unknown(kind: AttributeKind, word: &Ident) -> String {
    let known: Vec<String> = OPTIONS
        .iter()
        .filter(|option| option.kinds.contains(&kind))
        .map(|option| format!("`{}`", option.name))
        .collect();
    format!("{kind} has no option `{word}`; its options are {}", known.join(", "))
}

fn check_conflicts(word: &Ident, seen: &[Ident], errors: &mut CompileErrors) {
    // `scope` may repeat: each one adds a required scope.
    let adds_up = word == "scope";
    if !adds_up && seen.contains(word) {
        errors.at(word, format!("`{word}` is given twice"));
    }
    for (one, other, why) in CONFLICTS {
        let clashes = |a: &str, b: &str| word == a && seen.iter().any(|earlier| earlier == b);
        if clashes(one, other) || clashes(other, one) {
            errors.at(word, format!("`{one}` and `{other}` exclude each other: {why}"));
        }
    }
}

/// Accepts any expression as text, so that constants and `include_str!` work.
pub(crate) fn text(word: &Ident, value: Option<Expr>) -> syn::Result<Expr> {
    let value = required(word, value, "\"…\"")?;
    match &value {
        Expr::Lit(ExprLit { lit: Lit::Str(_), .. }) => Ok(value),
        Expr::Lit(other) => Err(syn::Error::new_spanned(
            other,
            format!("`{word}` is a string: write `{word} = \"…\"`"),
        )),
        _ => Ok(value),
    }
}

pub(crate) fn string(word: &Ident, value: Option<Expr>) -> syn::Result<LitStr> {
    match required(word, value, "\"…\"")? {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Ok(text),
        other => Err(syn::Error::new_spanned(
            other,
            format!("`{word}` is a string: write `{word} = \"…\"`"),
        )),
    }
}

/// A single scope, or a list of scopes.
fn scopes(word: &Ident, value: Option<Expr>) -> syn::Result<TokenStream> {
    match required(word, value, "\"…\"")? {
        Expr::Array(list) => {
            let scopes = list.elems.into_iter().map(|scope| text(word, Some(scope)));
            let scopes = scopes.collect::<syn::Result<Vec<_>>>()?;
            Ok(quote!(#(.scope(#scopes))*))
        }
        scope => text(word, Some(scope)).map(|scope| quote!(.scope(#scope))),
    }
}

fn flag(word: &Ident, value: Option<&Expr>) -> syn::Result<()> {
    match value {
        None => Ok(()),
        Some(value) => Err(syn::Error::new_spanned(
            value,
            format!("`{word}` takes no value: write it or leave it out"),
        )),
    }
}

fn path(word: &Ident, value: Option<Expr>) -> syn::Result<Path> {
    match required(word, value, "path::to::wharf")? {
        Expr::Path(path) if path.qself.is_none() => Ok(path.path),
        other => Err(syn::Error::new_spanned(other, "expected a path, as in `crate = my_wharf`")),
    }
}

fn integer(word: &Ident, value: Option<Expr>) -> syn::Result<u64> {
    match required(word, value, "1024")? {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => number.base10_parse(),
        other => Err(syn::Error::new_spanned(other, format!("`{word}` is a number of bytes"))),
    }
}

fn priority(word: &Ident, value: Option<Expr>) -> syn::Result<TokenStream> {
    let value = required(word, value, "0.5")?;
    let number = match &value {
        Expr::Lit(ExprLit { lit: Lit::Float(number), .. }) => number.base10_parse::<f64>()?,
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => number.base10_parse::<f64>()?,
        _ => f64::NAN,
    };
    if (0.0..=1.0).contains(&number) {
        Ok(quote!(.priority(#number)))
    } else {
        Err(syn::Error::new_spanned(value, "a priority is a number from 0.0 to 1.0"))
    }
}

fn timeout(word: &Ident, value: Option<Expr>) -> syn::Result<TokenStream> {
    let text = string(word, value)?;
    let millis = millis(&text.value()).ok_or_else(|| {
        syn::Error::new_spanned(
            &text,
            "a timeout is a whole number above 0 and a unit (ms, s, m, h), as in \"30s\"",
        )
    })?;
    Ok(quote!(.timeout(::core::time::Duration::from_millis(#millis))))
}

const TIME_UNITS: &[(&str, u64)] = &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

pub(crate) fn millis(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let (_, factor) = TIME_UNITS.iter().find(|(unit, _)| *unit == &text[digits.len()..])?;
    let number: u64 = digits.trim_end().parse().ok()?;
    number.checked_mul(*factor).filter(|&millis| millis > 0)
}

pub(crate) fn required(word: &Ident, value: Option<Expr>, example: &str) -> syn::Result<Expr> {
    value.ok_or_else(|| {
        syn::Error::new_spanned(word, format!("`{word}` needs a value: write `{word} = {example}`"))
    })
}

/// Reports a missing option, with the attribute itself as the span.
pub(crate) fn missing(errors: &mut CompileErrors, text: &str) {
    errors.push(syn::Error::new(Span::call_site(), text));
}

#[cfg(test)]
mod tests {
    use super::millis;

    #[test]
    fn timeouts_are_a_number_and_a_unit() {
        let good = [("1ms", 1), ("30s", 30_000), ("2 m", 120_000), ("1h", 3_600_000)];
        for (text, expected) in good {
            assert_eq!(millis(text), Some(expected), "{text}");
        }
        for text in ["", "s", "30", "0s", "-1s", "1.5s", "30 seconds", "18446744073709551615h"] {
            assert_eq!(millis(text), None, "{text}");
        }
    }
}
