//! Expands the attribute: the function itself, its companion type and the builder calls.
use proc_macro2::{Delimiter, Group, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Ident, ItemFn, ReturnType, Signature};

use crate::arguments_struct::arguments_struct;
use crate::errors::CompileErrors;
use crate::options::AttributeOptions;
use crate::parameters::{self, ArgumentField, CompletionSource, HandlerParameter};
use crate::{AttributeKind, check, docs};

/// Expands one attribute.
pub(crate) fn expand(
    kind: AttributeKind,
    attribute: TokenStream,
    item: TokenStream,
) -> TokenStream {
    let mut function: ItemFn = match syn::parse2(item.clone()) {
        Ok(function) => function,
        Err(error) => return not_a_function(kind, &item, error),
    };
    let mut errors = CompileErrors::default();
    let options = AttributeOptions::parse(kind, attribute, &mut errors);
    check::signature(kind, &function.sig, &options, &mut errors);
    let parameters = parameters::parameters(kind, &mut function.sig, &mut errors);
    if kind == AttributeKind::Resource {
        check::uri(&options, &parameters, &mut errors);
    }
    let is_method = function.sig.receiver().is_some();
    let build = errors.is_empty().then(|| build(kind, &function, &options, &parameters));
    let errors = errors.into_compile_errors();
    // A struct cannot be declared inside an impl block.
    let companion = (!is_method).then(|| companion(kind, &function, &options, &parameters, build));
    quote!(#function #companion #errors)
}

fn not_a_function(kind: AttributeKind, item: &TokenStream, error: syn::Error) -> TokenStream {
    let is_function = item.clone().into_iter().any(|token| token.to_string() == "fn");
    let error = match is_function {
        true => error,
        false => syn::Error::new(
            Span::call_site(),
            format!("{kind} can only be an attribute of a function"),
        ),
    };
    let error = error.into_compile_error();
    quote!(#item #error)
}

/// Generates the type with the function's name and its trait implementation. Without `build` only
/// the type exists, so that its uses cause no further errors.
fn companion(
    kind: AttributeKind,
    function: &ItemFn,
    options: &AttributeOptions,
    parameters: &[HandlerParameter],
    build: Option<TokenStream>,
) -> TokenStream {
    let ApiNames { part, method, provider } = kind.names();
    let (root, visibility, ident) = (&options.root, &function.vis, &function.sig.ident);
    let cfgs: Vec<&Attribute> =
        function.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg")).collect();
    let doc = format!(
        "Type of the function [`{0}`](fn@{0}) for registration: `.{method}::<{0}>()`.",
        ident
    );
    let arguments = build.as_ref().map(|_| arguments_struct(root, ident, parameters));
    let extractors = build.as_ref().map(|_| extractor_structs(root, parameters));
    let sendable = build.as_ref().and_then(|_| sendable(&function.sig));
    let body = build.unwrap_or_else(|| quote!(::core::unreachable!()));
    quote! {
        #(#cfgs)*
        #[doc = #doc]
        #[allow(non_camel_case_types)]
        #visibility struct #ident {}

        #(#cfgs)*
        #[allow(deprecated)]
        const _: () = {
            #arguments
            #extractors
            #sendable

            #[automatically_derived]
            impl #root::__private::#provider for #ident {
                fn #method() -> #root::__private::#part {
                    #body
                }
            }
        };
    }
}

/// Names of the server API for one kind of attribute.
struct ApiNames {
    part: Ident,
    method: Ident,
    provider: Ident,
}

impl AttributeKind {
    fn names(self) -> ApiNames {
        let (part, method) = match self {
            AttributeKind::Tool => ("Tool", "tool"),
            AttributeKind::Resource => ("Resource", "resource"),
            AttributeKind::Prompt => ("Prompt", "prompt"),
        };
        ApiNames {
            part: format_ident!("{part}"),
            method: format_ident!("{method}"),
            provider: format_ident!("{part}Fn"),
        }
    }
}

/// Generates `Tool::new("add", |…| add(…)).description("…")…`.
fn build(
    kind: AttributeKind,
    function: &ItemFn,
    options: &AttributeOptions,
    parameters: &[HandlerParameter],
) -> TokenStream {
    let part = kind.names().part;
    let (root, ident) = (&options.root, &function.sig.ident);
    let constructor = match (&function.sig.asyncness, &options.cheap) {
        (Some(_), _) => "new",
        (None, Some(_)) => "inline",
        (None, None) => "blocking",
    };
    let constructor = Ident::new(constructor, ident.span());
    let own_name = ident.unraw().to_string();
    let name = options.name.as_ref().map_or_else(|| quote!(#own_name), ToTokens::to_token_stream);
    let (key, name) = match &options.uri {
        Some(uri) => (quote!(#uri), Some(quote!(.name(#name)))),
        None => (name, None),
    };
    let description = match &options.description {
        Some(description) => Some(quote!(.description(#description))),
        None => docs::description(&function.attrs).map(|text| quote!(.description(#text))),
    };
    let setters = &options.setters;
    let completions =
        parameters.iter().filter_map(HandlerParameter::argument).filter_map(completion);
    let handler = handler(root, &function.sig, parameters);
    let start =
        quote_spanned!(ident.span()=> #root::__private::#part::#constructor(#key, #handler));
    let part = quote!(#start #name #description #(#setters)* #(#completions)*);
    options.app.apply(root, part)
}

fn completion(argument: &ArgumentField) -> Option<TokenStream> {
    let name = argument.name.as_ref()?;
    Some(match argument.completion.as_ref()? {
        CompletionSource::Function(path) => quote_spanned!(path.span()=> .complete(#name, #path)),
        CompletionSource::Values(values) => quote!(.complete_from(#name, [#(#values),*])),
    })
}

/// Generates a closure that takes the arguments as one struct and passes its fields separately.
fn handler(
    root: &syn::Path,
    signature: &Signature,
    parameters: &[HandlerParameter],
) -> TokenStream {
    let ident = &signature.ident;
    let here = Span::mixed_site().located_at(ident.span());
    let locals: Vec<Ident> =
        (0..parameters.len()).map(|index| Ident::new(&format!("value_{index}"), here)).collect();
    let pairs = || parameters.iter().zip(&locals);
    let fields = pairs().filter_map(|(parameter, local)| {
        let field = &parameter.argument()?.ident;
        Some(quote!(#field: #local))
    });
    let fields: Vec<TokenStream> = fields.collect();
    let arguments = (!fields.is_empty())
        .then(|| quote!(#root::__private::Args(__Arguments { #(#fields),* }): #root::__private::Args<__Arguments>));
    let extractors = pairs().enumerate().filter_map(|(index, (parameter, local))| {
        parameter.extractor()?;
        let wrapper = extractor_name(index);
        Some(quote!(#wrapper(#local): #wrapper))
    });
    let inputs = arguments.into_iter().chain(extractors);
    let mut call = quote_spanned!(here=> #ident(#(#locals),*));
    if signature.asyncness.is_some() {
        call = quote_spanned!(here=> __sendable(#call));
    }
    // An error about the closure as a whole concerns its return type, so its span points there.
    let (first, last) = return_type_ends(&signature.output).unwrap_or((here, here));
    let mut body = Group::new(Delimiter::Brace, call);
    body.set_span(last);
    quote_spanned!(first=> |#(#inputs),*| #body)
}

/// Spans of the first and the last token of the return type.
fn return_type_ends(output: &ReturnType) -> Option<(Span, Span)> {
    let ReturnType::Type(_, ty) = output else { return None };
    let mut tokens = ty.to_token_stream().into_iter();
    let first = tokens.next()?.span();
    Some((first, tokens.last().map_or(first, |last| last.span())))
}

/// Generates the `Send` check of the returned future, so that the compiler reports a violation once
/// and at its cause. The future that the check returns counts as `Send`.
fn sendable(signature: &Signature) -> Option<TokenStream> {
    signature.asyncness.map(|_| {
        quote! {
            fn __sendable<F>(
                future: F,
            ) -> impl ::core::future::Future<Output = F::Output> + ::core::marker::Send + 'static
            where
                F: ::core::future::Future + ::core::marker::Send + 'static,
            {
                future
            }
        }
    })
}

/// Generates one struct around the type of each extractor. The compiler checks the type once, at the
/// parameter; the structs always implement `Extract`, so the builder call causes no second error.
fn extractor_structs(root: &syn::Path, parameters: &[HandlerParameter]) -> TokenStream {
    let private = quote!(#root::__private);
    let structs = parameters.iter().enumerate().filter_map(|(index, parameter)| {
        let (ty, wrapper) = (parameter.extractor()?, extractor_name(index));
        let functions = format_ident!("__EXTRACTOR_{index}");
        let check = quote_spanned!(ty.span()=> #private::extractor::<#ty>());
        Some(quote! {
            struct #wrapper(#ty);
            const #functions: #private::Extractor<#ty> = #check;

            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #private::Extract for #wrapper {
                fn declare(declaration: &mut #private::Declaration) {
                    (#functions.declare)(declaration);
                }

                fn extract(
                    call: &#private::Incoming<'_>,
                ) -> ::core::result::Result<Self, #private::Error> {
                    (#functions.extract)(call).map(Self)
                }
            }
        })
    });
    structs.collect()
}

/// Name of the struct around the extractor at this position.
fn extractor_name(index: usize) -> Ident {
    format_ident!("__Extractor{index}")
}
