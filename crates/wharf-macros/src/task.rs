//! `task` and `after`: whether and when calls of a tool become tasks.
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Expr, Ident, LitStr, Path};

use crate::errors::Errors;
use crate::options::{millis, string};

/// What the two options say, as far as they were given.
#[derive(Default)]
pub(crate) struct Tasks {
    mode: Option<(Ident, Mode)>,
    start: Option<(Ident, TokenStream)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Optional,
    Required,
    Forbidden,
}

const MODES: &[(&str, Mode)] =
    &[("optional", Mode::Optional), ("required", Mode::Required), ("forbidden", Mode::Forbidden)];

impl Tasks {
    /// `task` or `task = "required"`.
    pub(crate) fn mode(&mut self, word: &Ident, value: Option<Expr>) -> syn::Result<()> {
        let mode = match value {
            None => Mode::Optional,
            value => {
                let text = string(word, value)?;
                let found = MODES.iter().find(|(name, _)| *name == text.value());
                let (_, mode) = found.ok_or_else(|| wrong_mode(&text))?;
                *mode
            }
        };
        self.mode = Some((word.clone(), mode));
        Ok(())
    }

    /// `after = "30s"` or `after = "detach"`.
    pub(crate) fn start(&mut self, word: &Ident, value: Option<Expr>) -> syn::Result<()> {
        let text = string(word, value)?;
        let start = match (text.value().as_str(), millis(&text.value())) {
            ("detach", _) => quote!(.on_detach()),
            (_, Some(millis)) => quote!(.after(::core::time::Duration::from_millis(#millis))),
            (_, None) => return Err(wrong_start(&text)),
        };
        self.start = Some((word.clone(), start));
        Ok(())
    }

    /// The builder call for both.
    pub(crate) fn setter(&self, root: &Path, errors: &mut Errors) -> Option<TokenStream> {
        let start = self.start.as_ref();
        let Some((_, mode)) = &self.mode else {
            if let Some((word, _)) = start {
                errors.at(word, "`after` says when a call becomes a task: write `task` as well");
            }
            return None;
        };
        if let (Mode::Forbidden, Some((word, _))) = (mode, start) {
            errors.at(word, "a tool that is never a task has no `after`");
        }
        let mode = match mode {
            Mode::Optional => quote!(optional),
            Mode::Required => quote!(required),
            Mode::Forbidden => quote!(forbidden),
        };
        let start = start.map(|(_, start)| start);
        Some(quote!(.task(#root::TaskMode::#mode() #start)))
    }
}

fn wrong_mode(text: &LitStr) -> syn::Error {
    let message = "`task` is \"optional\" (or nothing), \"required\" or \"forbidden\"";
    syn::Error::new_spanned(text, message)
}

fn wrong_start(text: &LitStr) -> syn::Error {
    let message = "`after` is a whole number above 0 and a unit (ms, s, m, h), as in \"30s\", or \
                   \"detach\" for where the handler calls `ctx.detach()`";
    syn::Error::new_spanned(text, message)
}
