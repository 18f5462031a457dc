//! Options `app` and `visibility`: the page of a tool, and its callers.
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Expr, ExprLit, Ident, Lit, Path};

use crate::options::{required, string, text};

/// Builder calls for the two options, in the order they were written.
#[derive(Default)]
pub(crate) struct AppOptions {
    calls: Vec<AppCall>,
}

enum AppCall {
    Page(Expr),
    Visibility(Vec<Ident>),
}

/// Values of `visibility`, with the variants of the enum.
const CALLERS: &[(&str, &str)] = &[("model", "Model"), ("app", "App")];

impl AppOptions {
    /// `app = "ui://weather"`.
    pub(crate) fn page(&mut self, word: &Ident, value: Option<Expr>) -> syn::Result<()> {
        let uri = text(word, value)?;
        if let Expr::Lit(ExprLit { lit: Lit::Str(literal), .. }) = &uri
            && !literal.value().starts_with("ui://")
        {
            let message = "the URI of an app begins with `ui://`, as in \"ui://weather\"";
            return Err(syn::Error::new_spanned(literal, message));
        }
        self.calls.push(AppCall::Page(uri));
        Ok(())
    }

    /// `visibility = "app"` or `visibility = ["model", "app"]`.
    pub(crate) fn visibility(&mut self, word: &Ident, value: Option<Expr>) -> syn::Result<()> {
        let value = required(word, value, "[\"app\"]")?;
        let values: Vec<Expr> = match &value {
            Expr::Array(list) => list.elems.iter().cloned().collect(),
            single => vec![single.clone()],
        };
        if values.is_empty() {
            let message =
                "a tool that nothing may call has no use: name \"model\", \"app\" or both";
            return Err(syn::Error::new_spanned(value, message));
        }
        let callers = values.into_iter().map(|value| caller(word, value));
        self.calls.push(AppCall::Visibility(callers.collect::<syn::Result<_>>()?));
        Ok(())
    }

    /// Adds the calls to `tool`, the expression that builds the tool.
    pub(crate) fn apply(&self, root: &Path, tool: TokenStream) -> TokenStream {
        self.calls.iter().fold(tool, |tool, call| match call {
            AppCall::Page(uri) => quote!(#root::apps::ToolAppExt::app(#tool, #uri)),
            AppCall::Visibility(callers) => quote! {
                #root::apps::ToolAppExt::visibility(#tool, [#(#root::apps::Visibility::#callers),*])
            },
        })
    }
}

/// Returns the variant for one value of `visibility`.
fn caller(word: &Ident, value: Expr) -> syn::Result<Ident> {
    let text = string(word, Some(value))?;
    let known = CALLERS.iter().find(|(name, _)| *name == text.value());
    let (_, variant) = known.ok_or_else(|| {
        syn::Error::new_spanned(&text, "a tool is visible to \"model\", to \"app\", or to both")
    })?;
    Ok(format_ident!("{variant}", span = text.span()))
}
