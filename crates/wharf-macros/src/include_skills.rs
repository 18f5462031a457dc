//! `include_skills!`: embeds a directory of skills, with digests computed at compile time.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use proc_macro2::TokenStream;
use quote::quote;
use sha2::{Digest as _, Sha256};
use syn::{
    Error, LitStr, Path as RustPath, Token,
    parse::{Parse, ParseStream},
    parse_quote,
};

/// Input of the macro: `"skills"` or `"skills", crate = harbour`.
struct SkillsInput {
    directory: LitStr,
    /// Path of the facade crate.
    root: RustPath,
}

impl Parse for SkillsInput {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let directory = input.parse()?;
        let mut root = parse_quote!(::wharf);
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
        if !input.is_empty() {
            input.parse::<Token![crate]>()?;
            input.parse::<Token![=]>()?;
            root = input.call(RustPath::parse_mod_style)?;
            input.parse::<Option<Token![,]>>()?;
        }
        Ok(SkillsInput { directory, root })
    }
}

/// Expands to a value of the files below a directory of the crate.
pub(crate) fn expand(input: TokenStream) -> TokenStream {
    let embedded = syn::parse2::<SkillsInput>(input).and_then(|SkillsInput { directory, root }| {
        let files =
            files_below(&directory.value()).map_err(|text| Error::new_spanned(&directory, text))?;
        Ok((directory, root, files))
    });
    let (directory, root, files) = match embedded {
        Ok(embedded) => embedded,
        Err(error) => return error.into_compile_error(),
    };
    let files = files.iter().map(|file| {
        let EmbeddedFile { path, on_disk, digest } = file;
        // The compiler tracks files of `include_bytes`: a change compiles the crate again.
        quote! {
            #root::skills::EmbeddedFile {
                path: #path,
                bytes: ::core::include_bytes!(#on_disk),
                digest: [#(#digest),*],
            }
        }
    });
    quote! {
        #root::skills::EmbeddedSkills { directory: #directory, files: &[#(#files),*] }
    }
}

struct EmbeddedFile {
    /// Path below the directory, with `/`.
    path: String,
    on_disk: String,
    digest: [u8; 32],
}

fn files_below(directory: &str) -> Result<Vec<EmbeddedFile>, String> {
    let root =
        env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default().join(directory);
    let mut files = Vec::new();
    walk(&root, "", &mut files)?;
    Ok(files)
}

fn walk(directory: &Path, prefix: &str, files: &mut Vec<EmbeddedFile>) -> Result<(), String> {
    let cannot = |error: io::Error| format!("cannot read `{}`: {error}", directory.display());
    let entries = fs::read_dir(directory).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut entries = entries.map_err(cannot)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let (Some(on_disk), name) = (path.to_str(), entry.file_name()) else {
            return Err(format!("`{}` is not UTF-8: rename it", path.display()));
        };
        let name = name.to_string_lossy();
        if name.starts_with('.') {
            continue;
        }
        let below = format!("{prefix}{name}");
        let kind = entry.file_type().map_err(cannot)?;
        if kind.is_dir() {
            walk(&path, &format!("{below}/"), files)?;
        } else if kind.is_file() {
            let bytes = fs::read(&path).map_err(cannot)?;
            let digest = Sha256::digest(&bytes).into();
            files.push(EmbeddedFile { path: below, on_disk: on_disk.to_owned(), digest });
        } else {
            return Err(format!(
                "`{on_disk}` is a symbolic link or a special file: replace it by a copy"
            ));
        }
    }
    Ok(())
}
