//! Options `task` and `after`: the task support of a tool and the time at which a call becomes a
//! task.
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Expr, Ident, LitStr, Path};

use crate::errors::CompileErrors;
use crate::options::{millis, string};

/// Values of the two options, if given.
#[derive(Default)]
pub(crate) struct TaskOptions {
    mode: Option<(Ident, TaskSupport)>,
    start: Option<(Ident, TokenStream)>,
}

#[derive(Clone, Copy, PartialEq)]
enum TaskSupport {
    Optional,
    Required,
    Forbidden,
}

const TASK_SUPPORT_NAMES: &[(&str, TaskSupport)] = &[
    ("optional", TaskSupport::Optional),
    ("required", TaskSupport::Required),
    ("forbidden", TaskSupport::Forbidden),
];

impl TaskOptions {
    /// `task` or `task = "required"`.
    pub(crate) fn mode(&mut self, word: &Ident, value: Option<Expr>) -> syn::Result<()> {
        let mode = match value {
            None => TaskSupport::Optional,
            value => {
                let text = string(word, value)?;
                let found = TASK_SUPPORT_NAMES.iter().find(|(name, _)| *name == text.value());
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

    /// Builder call for both options.
    pub(crate) fn setter(&self, root: &Path, errors: &mut CompileErrors) -> Option<TokenStream> {
        let start = self.start.as_ref();
        let Some((_, mode)) = &self.mode else {
            if let Some((word, _)) = start {
                errors.at(word, "`after` sets when a call becomes a task: write `task` as well");
            }
            return None;
        };
        if let (TaskSupport::Forbidden, Some((word, _))) = (mode, start) {
            errors.at(word, "`after` has no effect on a tool that is never a task: remove it");
        }
        let mode = match mode {
            TaskSupport::Optional => quote!(optional),
            TaskSupport::Required => quote!(required),
            TaskSupport::Forbidden => quote!(forbidden),
        };
        let start = start.map(|(_, start)| start);
        Some(quote!(.task(#root::__private::TaskMode::#mode() #start)))
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
