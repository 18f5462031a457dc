//! What stands in the attribute's parentheses: one table of options, each a builder call.
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Expr, ExprLit, Ident, Lit, LitStr, Path, Token, parse_quote};

use crate::Kind;
use crate::errors::Errors;
use crate::task::Tasks;

/// The options of one attribute, ready to be written out.
pub(crate) struct Options {
    /// The first, unnamed literal: a resource's URI or template.
    pub(crate) uri: Option<LitStr>,
    pub(crate) name: Option<Expr>,
    pub(crate) description: Option<Expr>,
    /// The word `cheap`, kept for error messages.
    pub(crate) cheap: Option<Ident>,
    /// The word `size`, kept for error messages.
    pub(crate) size: Option<Ident>,
    /// Where the facade is: `::wharf` unless `crate = path` says otherwise.
    pub(crate) root: Path,
    tasks: Tasks,
    /// Builder calls, such as `.title("…")`, in the order they were written.
    pub(crate) setters: Vec<TokenStream>,
}

#[derive(Clone, Copy)]
enum Shape {
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
    RequestExtensions,
}

struct Known {
    name: &'static str,
    shape: Shape,
    kinds: &'static [Kind],
}

const fn known(name: &'static str, shape: Shape, kinds: &'static [Kind]) -> Known {
    Known { name, shape, kinds }
}

const EVERY: &[Kind] = &[Kind::Tool, Kind::Resource, Kind::Prompt];
const TOOL: &[Kind] = &[Kind::Tool];
const RESOURCE: &[Kind] = &[Kind::Resource];

const OPTIONS: &[Known] = &[
    known("name", Shape::Name, EVERY),
    known("title", Shape::Text, EVERY),
    known("description", Shape::Description, EVERY),
    known("icon", Shape::Icon, EVERY),
    known("timeout", Shape::Timeout, EVERY),
    known("cheap", Shape::Cheap, EVERY),
    known("read_only", Shape::Flag, TOOL),
    known("destructive", Shape::Flag, TOOL),
    known("idempotent", Shape::Flag, TOOL),
    known("open_world", Shape::OpenWorld, TOOL),
    known("closed_world", Shape::Flag, TOOL),
    known("mime", Shape::Text, RESOURCE),
    known("size", Shape::Size, RESOURCE),
    known("audience", Shape::Audience, RESOURCE),
    known("priority", Shape::Priority, RESOURCE),
    known("task", Shape::Task, TOOL),
    known("after", Shape::After, TOOL),
    known("crate", Shape::Crate, EVERY),
    known("scope", Shape::RequestExtensions, EVERY),
];

/// Pairs that contradict each other, and why.
const CONFLICTS: &[(&str, &str, &str)] = &[
    ("read_only", "destructive", "a read-only tool destroys nothing"),
    ("open_world", "closed_world", "a tool's world is either open or closed"),
];

impl Options {
    pub(crate) fn parse(kind: Kind, tokens: TokenStream, errors: &mut Errors) -> Options {
        let mut options = Options {
            uri: None,
            name: None,
            description: None,
            cheap: None,
            size: None,
            root: parse_quote!(::wharf),
            tasks: Tasks::default(),
            setters: Vec::new(),
        };
        let items = Punctuated::<Item, Token![,]>::parse_terminated.parse2(tokens);
        let mut seen = Vec::new();
        let items = errors.keep(items).into_iter().flatten();
        for (position, item) in items.enumerate() {
            match item {
                Item::Literal(uri) => options.accept_uri(kind, position, uri, errors),
                Item::Option(word, value) => {
                    options.accept(kind, &word, value, errors);
                    check_repeats(&word, &seen, errors);
                    seen.push(word);
                }
            }
        }
        let task = options.tasks.setter(&options.root, errors);
        options.setters.extend(task);
        options
    }

    fn accept_uri(&mut self, kind: Kind, position: usize, uri: LitStr, errors: &mut Errors) {
        match kind {
            Kind::Resource if position == 0 => self.uri = Some(uri),
            Kind::Resource => {
                errors.at(&uri, "the URI comes first, and there is one");
                self.uri.get_or_insert(uri);
            }
            _ => errors.at(
                &uri,
                format!("{kind} takes options, such as `name = {}`", uri.to_token_stream()),
            ),
        }
    }

    fn accept(&mut self, kind: Kind, word: &Ident, value: Option<Expr>, errors: &mut Errors) {
        let Some(option) = find(kind, word) else {
            errors.at(word, unknown(kind, word));
            return;
        };
        let setter = match option.shape {
            Shape::Name => text(word, value).map(|text| {
                self.name = Some(text);
                None
            }),
            Shape::Description => text(word, value).map(|text| {
                self.description = Some(text);
                None
            }),
            Shape::Cheap => flag(word, value.as_ref()).map(|()| {
                self.cheap = Some(word.clone());
                None
            }),
            Shape::Crate => path(word, value).map(|path| {
                self.root = path;
                None
            }),
            Shape::Size => integer(word, value).map(|size| {
                self.size = Some(word.clone());
                Some(quote!(.size(#size)))
            }),
            Shape::Text => text(word, value).map(|text| Some(quote!(.#word(#text)))),
            Shape::Flag => flag(word, value.as_ref()).map(|()| Some(quote!(.#word()))),
            Shape::OpenWorld => flag(word, value.as_ref()).map(|()| Some(quote!(.#word(true)))),
            Shape::Timeout => timeout(word, value).map(Some),
            Shape::Priority => priority(word, value).map(Some),
            Shape::Icon => self.icon(word, value).map(Some),
            Shape::Audience => self.audience(word, value).map(Some),
            Shape::Task => self.tasks.mode(word, value).map(|()| None),
            Shape::After => self.tasks.start(word, value).map(|()| None),
            Shape::RequestExtensions => scopes(word, value).map(Some),
        };
        self.setters.extend(errors.keep(setter).flatten());
    }

    fn icon(&self, word: &Ident, value: Option<Expr>) -> syn::Result<TokenStream> {
        let (root, source) = (&self.root, text(word, value)?);
        Ok(quote!(.icon(#root::Icon::new(#source))))
    }

    fn audience(&self, word: &Ident, value: Option<Expr>) -> syn::Result<TokenStream> {
        let root = &self.root;
        let role = string(word, value)?;
        match role.value().as_str() {
            "user" => Ok(quote!(.audience(#root::Role::User))),
            "assistant" => Ok(quote!(.audience(#root::Role::Assistant))),
            _ => Err(syn::Error::new_spanned(
                role,
                "the audience is \"user\" or \"assistant\"; leave it out for both",
            )),
        }
    }
}

/// `"literal"`, `word` or `word = value`.
enum Item {
    Literal(LitStr),
    Option(Ident, Option<Expr>),
}

impl Parse for Item {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.peek(LitStr) {
            return input.parse().map(Item::Literal);
        }
        let word = Ident::parse_any(input)?;
        let value = match input.parse::<Option<Token![=]>>()? {
            Some(_) => Some(input.parse()?),
            None => None,
        };
        Ok(Item::Option(word, value))
    }
}

fn find(kind: Kind, word: &Ident) -> Option<&'static Known> {
    OPTIONS.iter().find(|option| word == option.name && option.kinds.contains(&kind))
}

fn unknown(kind: Kind, word: &Ident) -> String {
    let known: Vec<String> = OPTIONS
        .iter()
        .filter(|option| option.kinds.contains(&kind))
        .map(|option| format!("`{}`", option.name))
        .collect();
    format!("{kind} has no option `{word}`; it knows {}", known.join(", "))
}

fn check_repeats(word: &Ident, seen: &[Ident], errors: &mut Errors) {
    // Each is one more.
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

/// Text may be any expression, so that constants and `include_str!` work.
fn text(word: &Ident, value: Option<Expr>) -> syn::Result<Expr> {
    let value = required(word, value, "\"…\"")?;
    match &value {
        Expr::Lit(ExprLit { lit: Lit::Str(_), .. }) => Ok(value),
        Expr::Lit(other) => Err(syn::Error::new_spanned(
            other,
            format!("`{word}` is a text: write `{word} = \"…\"`"),
        )),
        _ => Ok(value),
    }
}

pub(crate) fn string(word: &Ident, value: Option<Expr>) -> syn::Result<LitStr> {
    match required(word, value, "\"…\"")? {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Ok(text),
        other => Err(syn::Error::new_spanned(
            other,
            format!("`{word}` is a text: write `{word} = \"…\"`"),
        )),
    }
}

/// One scope, or a list of them.
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

const UNITS: &[(&str, u64)] = &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

pub(crate) fn millis(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let (_, factor) = UNITS.iter().find(|(unit, _)| *unit == &text[digits.len()..])?;
    let number: u64 = digits.trim_end().parse().ok()?;
    number.checked_mul(*factor).filter(|&millis| millis > 0)
}

fn required(word: &Ident, value: Option<Expr>, example: &str) -> syn::Result<Expr> {
    value.ok_or_else(|| {
        syn::Error::new_spanned(word, format!("`{word}` needs a value: write `{word} = {example}`"))
    })
}

/// Points at the attribute itself, for what is missing rather than wrong.
pub(crate) fn missing(errors: &mut Errors, text: &str) {
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
