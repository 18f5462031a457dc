//! Package in a `Cargo.toml`: name, version and other metadata, with the values that it inherits from its workspace.

use std::{
    fs,
    path::{Path, PathBuf},
};

use toml::{Table, Value};

use crate::error::CliError;

/// Metadata of a package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CargoPackage {
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) authors: Vec<String>,
    pub(crate) license: Option<String>,
    pub(crate) repository: Option<String>,
    pub(crate) homepage: Option<String>,
    pub(crate) documentation: Option<String>,
    pub(crate) keywords: Vec<String>,
    /// File of the README, if there is one.
    pub(crate) readme: Option<PathBuf>,
    /// False for `publish = false`.
    pub(crate) is_published: bool,
}

impl CargoPackage {
    /// Reads the package of `file`.
    pub(crate) fn read(file: &Path) -> Result<CargoPackage, CliError> {
        let manifest = table(file)?;
        let Some(package) = manifest.get("package").and_then(Value::as_table) else {
            let hint = "Name the `Cargo.toml` of a package with --manifest-path.";
            return Err(CliError::usage(format!("{} has no [package]", file.display()))
                .hint(hint.to_owned()));
        };
        let workspace = Workspace::of(file, &manifest);
        let fields = PackageFields { package, workspace };
        let own = file.parent().unwrap_or(Path::new("")).to_owned();
        Ok(CargoPackage {
            name: fields.text("name").unwrap_or_default(),
            version: fields.text("version"),
            description: fields.text("description").map(|it| one_line(&it)),
            authors: fields.texts("authors"),
            license: fields.text("license"),
            repository: fields.text("repository"),
            homepage: fields.text("homepage"),
            documentation: fields.text("documentation"),
            keywords: fields.texts("keywords"),
            readme: fields.readme(&own),
            is_published: fields.value("publish").is_none_or(|it| {
                it.as_bool() != Some(false) && it.as_array().is_none_or(|it| !it.is_empty())
            }),
        })
    }

    /// Reads the package that an option names, or that of `directory` if it has one.
    pub(crate) fn find(
        option: Option<&Path>,
        directory: &Path,
    ) -> Result<Option<(PathBuf, CargoPackage)>, CliError> {
        let default = directory.join("Cargo.toml");
        let file = match option {
            Some(file) if file.is_dir() => file.join("Cargo.toml"),
            Some(file) => file.to_owned(),
            None if default.is_file() => default,
            None => return Ok(None),
        };
        match (CargoPackage::read(&file), option) {
            (Ok(package), _) => Ok(Some((file, package))),
            // A workspace without a package of its own has nothing to say here.
            (Err(_), None) if table(&file).is_ok_and(|it| !it.contains_key("package")) => Ok(None),
            (Err(error), _) => Err(error),
        }
    }
}

/// Workspace of a package: its directory, and its `[workspace.package]`.
struct Workspace {
    directory: PathBuf,
    package: Table,
}

impl Workspace {
    fn of(file: &Path, manifest: &Table) -> Option<Workspace> {
        let has = |manifest: &Table, directory: &Path| {
            let workspace = manifest.get("workspace")?.as_table()?;
            let package = workspace.get("package").and_then(Value::as_table).cloned();
            Some(Workspace {
                directory: directory.to_owned(),
                package: package.unwrap_or_default(),
            })
        };
        let directory = fs::canonicalize(file).ok()?.parent()?.to_owned();
        let named = manifest.get("package")?.get("workspace").and_then(Value::as_str);
        if let Some(named) = named {
            let directory = directory.join(named);
            return has(&table(&directory.join("Cargo.toml")).ok()?, &directory);
        }
        directory.ancestors().find_map(|above| has(&table(&above.join("Cargo.toml")).ok()?, above))
    }
}

/// Fields of `[package]`, with those that it inherits.
struct PackageFields<'a> {
    package: &'a Table,
    workspace: Option<Workspace>,
}

impl PackageFields<'_> {
    fn value(&self, key: &str) -> Option<&Value> {
        let own = self.package.get(key)?;
        match self.inherits(own) {
            true => self.workspace.as_ref()?.package.get(key),
            false => Some(own),
        }
    }

    fn inherits(&self, value: &Value) -> bool {
        value.get("workspace").and_then(Value::as_bool) == Some(true)
    }

    fn text(&self, key: &str) -> Option<String> {
        self.value(key)?.as_str().map(str::to_owned)
    }

    fn texts(&self, key: &str) -> Vec<String> {
        let values = self.value(key).and_then(Value::as_array);
        let texts = values.into_iter().flatten().filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    }

    /// File of the README: relative to the file that names it, `README.md` beside the manifest if none is named.
    fn readme(&self, own: &Path) -> Option<PathBuf> {
        let default = || {
            let names = ["README.md", "README.txt", "README"].into_iter();
            names.map(|name| own.join(name)).find(|it| it.is_file())
        };
        let Some(value) = self.package.get("readme") else { return default() };
        if self.inherits(value) {
            let workspace = self.workspace.as_ref()?;
            return Some(workspace.directory.join(workspace.package.get("readme")?.as_str()?));
        }
        match value.as_bool() {
            Some(false) => None,
            Some(true) => Some(own.join("README.md")),
            None => Some(own.join(value.as_str()?)),
        }
    }
}

fn table(file: &Path) -> Result<Table, CliError> {
    let wrong = |why: &dyn std::fmt::Display| {
        CliError::usage(format!("cannot read {}: {why}", file.display()))
    };
    let text = fs::read_to_string(file).map_err(|error| wrong(&error))?;
    text.parse().map_err(|error: toml::de::Error| wrong(&error.message()))
}

/// Text with its line breaks replaced by spaces.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_workspace_are_inherited() {
        let dir = std::env::temp_dir().join(format!("wharf-cargo-{}", std::process::id()));
        fs::create_dir_all(dir.join("crates/harbour")).unwrap();
        let workspace = "[workspace]\nmembers = [\"crates/*\"]\n[workspace.package]\n\
                         version = \"1.2.3\"\nreadme = \"README.md\"\nlicense = \"MIT\"\n";
        fs::write(dir.join("Cargo.toml"), workspace).unwrap();
        let file = dir.join("crates/harbour/Cargo.toml");
        let package = "[package]\nname = \"harbour\"\nversion.workspace = true\n\
                       readme.workspace = true\ndescription = \"\"\"A\n  harbour.\"\"\"\n\
                       publish = false\n";
        fs::write(&file, package).unwrap();
        let read = CargoPackage::read(&file).unwrap();
        assert_eq!((read.name.as_str(), read.version.as_deref()), ("harbour", Some("1.2.3")));
        assert_eq!(read.readme, Some(fs::canonicalize(&dir).unwrap().join("README.md")));
        assert_eq!((read.description.as_deref(), read.license), (Some("A harbour."), None));
        assert!(!read.is_published);
        assert_eq!(CargoPackage::find(None, &dir).unwrap(), None);
        assert!(CargoPackage::find(Some(&dir), &dir).is_err());
        fs::remove_dir_all(dir).unwrap();
    }
}
