//! Struct of the arguments that the attribute emits: one field for each argument parameter. `Option` fields
//! become optional through serde (missing is `None`) and schemars (not in `required`).
use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Expr, ExprLit, Ident, Lit};

use crate::parameters::{self, ArgumentField, HandlerParameter};

/// Generates the arguments struct and the functions for `#[default(…)]`.
pub(crate) fn arguments_struct(
    root: &syn::Path,
    function: &Ident,
    parameters: &[HandlerParameter],
) -> Option<TokenStream> {
    let arguments: Vec<&ArgumentField> =
        parameters.iter().filter_map(HandlerParameter::argument).collect();
    if arguments.is_empty() {
        return None;
    }
    let fields = arguments
        .iter()
        .map(|ArgumentField { ident, ty, attributes, .. }| quote!(#attributes #ident: #ty));
    let defaults = arguments.iter().filter_map(|argument| default(argument));
    // Schemas are identified by name, and no other type in the module can have the function's name.
    let name = function.unraw().to_string();
    let private = quote!(#root::__private);
    let (serde, schemars) = (format!("{private}::serde"), format!("{private}::schemars"));
    let (serde, schemars) = (serde.replace(' ', ""), schemars.replace(' ', ""));
    Some(quote! {
        #[derive(#private::serde::Deserialize, #private::schemars::JsonSchema)]
        #[serde(crate = #serde, rename = #name, expecting = "an object of arguments")]
        #[schemars(crate = #schemars)]
        struct __Arguments {
            #(#fields),*
        }

        #(#defaults)*
    })
}

fn default(argument: &ArgumentField) -> Option<TokenStream> {
    let (expression, ty) = (argument.default.as_ref()?, &argument.ty);
    let name = parameters::default_function(&argument.ident);
    let value = match expression {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
            quote_spanned!(text.span()=> ::core::convert::Into::into(#text))
        }
        other => other.to_token_stream(),
    };
    Some(quote! {
        fn #name() -> #ty {
            #value
        }
    })
}
