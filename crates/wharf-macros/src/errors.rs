//! Collects compile errors, so that one pass reports all mistakes.
use std::fmt::Display;

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::Error;

/// The errors found so far.
#[derive(Default)]
pub(crate) struct CompileErrors(Option<Error>);

impl CompileErrors {
    /// Adds `text`, pointing at `tokens`.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, text: impl Display) {
        self.push(Error::new_spanned(tokens, text));
    }

    /// Adds an error that already has a span.
    pub(crate) fn push(&mut self, error: Error) {
        match &mut self.0 {
            Some(first) => first.combine(error),
            none => *none = Some(error),
        }
    }

    /// Returns the value, or records the error and returns `None`.
    pub(crate) fn keep<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// `compile_error!` calls for all recorded errors, or `None` if there are none.
    pub(crate) fn into_compile_errors(self) -> Option<TokenStream> {
        self.0.map(|error| error.into_compile_error())
    }
}
