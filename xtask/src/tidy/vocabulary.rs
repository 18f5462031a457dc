//! Names that the sources and manifests define: what documents may name.

use std::collections::{HashMap, HashSet};

use super::repository::Repository;
use super::source::{SourceFile, words};

/// Names in the sources and manifests.
pub(super) struct Vocabulary<'a> {
    sources: &'a [SourceFile],
    /// Words of the code, without literals, with the indices of the sources that have them.
    code: HashMap<&'a str, Vec<usize>>,
    /// Words of the scripts.
    scripts: HashSet<&'a str>,
    /// Words of the code and of its literals.
    words: HashSet<&'a str>,
    /// Command line options, with `--`.
    options: HashSet<String>,
    packages: HashSet<&'a str>,
    features: HashSet<&'a str>,
}

impl<'a> Vocabulary<'a> {
    pub(super) fn of(repository: &'a Repository) -> Vocabulary<'a> {
        let sources = &repository.sources;
        let manifests = || repository.manifests.iter().map(|manifest| manifest.text.as_str());
        let crates = repository.manifests.iter().filter_map(|it| it.path.strip_prefix("crates/"));
        let folders = crates.filter_map(|path| path.split('/').next());
        Vocabulary {
            sources,
            code: words_of_code(sources),
            scripts: repository.scripts.iter().flat_map(|file| words(&file.text)).collect(),
            words: sources.iter().flat_map(|file| words(&file.uncommented)).collect(),
            options: sources.iter().flat_map(options_of).collect(),
            packages: manifests().flat_map(names_in).chain(folders).collect(),
            features: manifests().flat_map(features_in).collect(),
        }
    }

    pub(super) fn has_in_code(&self, word: &str) -> bool {
        self.code.contains_key(word) || self.scripts.contains(word)
    }

    pub(super) fn has(&self, word: &str) -> bool {
        self.words.contains(word)
    }

    pub(super) fn has_option(&self, option: &str) -> bool {
        self.options.contains(option)
    }

    pub(super) fn has_package(&self, name: &str) -> bool {
        self.packages.contains(name)
    }

    pub(super) fn has_feature(&self, name: &str) -> bool {
        self.features.contains(name)
    }

    /// Returns whether `parent::name` may exist: a file names both where the parent is a type, and the file of the
    /// module or crate has the name where it is one of ours.
    pub(super) fn has_path(&self, parent: &str, name: &str) -> bool {
        let with_name = self.files_with(name);
        if parent.starts_with(|it: char| it.is_ascii_uppercase()) {
            return self.files_with(parent).iter().any(|file| with_name.contains(file));
        }
        let files = self.sources.iter().enumerate();
        let mut modules = files.filter(|(_, file)| is_module(&file.path, parent)).peekable();
        modules.peek().is_none()
            || modules.any(|(at, file)| with_name.contains(&at) || self.may_export(file, name))
    }

    /// Returns whether `root` exports everything of some module, and a file below its folder has the name.
    fn may_export(&self, root: &SourceFile, name: &str) -> bool {
        let folder = root.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut with_name = self.files_with(name).iter().map(|at| &self.sources[*at].path);
        root.code.contains("::*;") && with_name.any(|path| path.starts_with(folder))
    }

    /// Returns the indices of the sources whose code has the word.
    fn files_with(&self, word: &str) -> &[usize] {
        self.code.get(word).map(Vec::as_slice).unwrap_or_default()
    }
}

fn words_of_code(sources: &[SourceFile]) -> HashMap<&str, Vec<usize>> {
    let mut files_by_word: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, file) in sources.iter().enumerate() {
        for word in words(&file.code) {
            let files = files_by_word.entry(word).or_default();
            if files.last() != Some(&at) {
                files.push(at);
            }
        }
    }
    files_by_word
}

/// Returns whether the file is the root of the crate or module `name`.
fn is_module(path: &str, name: &str) -> bool {
    let folder = path.strip_suffix("/mod.rs").or_else(|| path.strip_suffix(".rs"));
    let module = folder.and_then(|folder| folder.rsplit('/').next());
    let package = path.strip_prefix("crates/").and_then(|path| path.strip_suffix("/src/lib.rs"));
    module == Some(name) || package.is_some_and(|package| package.replace('-', "_") == name)
}

/// Returns the options that the file may define: those in its literals, and each name if it has arguments of clap, which
/// derives options from names.
fn options_of(file: &SourceFile) -> impl Iterator<Item = String> {
    let literal = options_in(&file.uncommented).map(str::to_owned);
    let has_arguments = file.code.contains("#[arg(");
    let long = |word: &str| format!("--{}", word.replace('_', "-"));
    literal.chain(words(&file.uncommented).filter(move |_| has_arguments).map(long))
}

/// Returns the options in a text, with `--`.
pub(super) fn options_in(text: &str) -> impl Iterator<Item = &str> {
    let starts = text.match_indices("--").filter(|(start, _)| {
        let before = text[..*start].chars().next_back();
        before.is_none_or(|it| it.is_whitespace() || "\"'`([{".contains(it))
    });
    starts.filter_map(|(start, dashes)| {
        let name = &text[start + dashes.len()..];
        let length = name.find(|it: char| !it.is_ascii_alphanumeric() && it != '-');
        let length = length.unwrap_or(name.len());
        name.starts_with(|it: char| it.is_ascii_lowercase())
            .then(|| text[start..start + dashes.len() + length].trim_end_matches('-'))
    })
}

/// Returns the names of a manifest's package and programs.
fn names_in(manifest: &str) -> impl Iterator<Item = &str> {
    manifest.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
}

fn features_in(manifest: &str) -> impl Iterator<Item = &str> {
    let lines = manifest.lines().skip_while(|line| *line != "[features]").skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    lines.filter_map(|line| line.split_once(" = ")).map(|(name, _)| name)
}
