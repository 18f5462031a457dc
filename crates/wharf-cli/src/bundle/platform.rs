//! Binaries of a bundle, and the systems that they run on.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{bundle::archive::BundleFile, error::CliError};

/// First bytes of a program, with the systems that it runs on.
const FORMATS: [(&[u8], &[&str]); 8] = [
    (b"\x7fELF", &["linux"]),
    (b"MZ", &["win32"]),
    (b"\xfe\xed\xfa\xce", &["darwin"]),
    (b"\xfe\xed\xfa\xcf", &["darwin"]),
    (b"\xce\xfa\xed\xfe", &["darwin"]),
    (b"\xcf\xfa\xed\xfe", &["darwin"]),
    (b"\xca\xfe\xba\xbe", &["darwin"]),
    (b"#!", &["darwin", "linux"]),
];

/// Program of a bundle.
#[derive(Debug)]
pub(super) struct BinaryFile {
    pub(super) file: PathBuf,
    /// Name in the bundle.
    pub(super) name: String,
    /// Systems that it runs on.
    pub(super) platforms: &'static [&'static str],
    content: Vec<u8>,
}

impl BinaryFile {
    /// Reads all programs; the first is the main one. Each system has one at most.
    pub(super) fn read_all(files: &[PathBuf]) -> Result<Vec<BinaryFile>, CliError> {
        let mut binaries: Vec<BinaryFile> = Vec::new();
        for file in files {
            let (content, platforms) = read_program(file)?;
            let twice =
                binaries.iter().find(|it| it.platforms.iter().any(|at| platforms.contains(at)));
            if let Some(other) = twice {
                return Err(CliError::usage(format!(
                    "--binary {} and {} are both for {}",
                    other.file.display(),
                    file.display(),
                    platforms.join(" and ")
                ))
                .hint(
                    "A bundle has one program for each system: make one bundle for each processor."
                        .to_owned(),
                ));
            }
            let own = file.file_name().and_then(|it| it.to_str()).unwrap_or("server");
            // Windows starts only files with this extension.
            let needs_exe = platforms == ["win32"] && !own.to_ascii_lowercase().ends_with(".exe");
            let own = if needs_exe { format!("{own}.exe") } else { own.to_owned() };
            let name = match binaries.is_empty() {
                true => format!("server/{own}"),
                false => format!("server/{}/{own}", platforms[0]),
            };
            binaries.push(BinaryFile { file: file.clone(), name, platforms, content });
        }
        Ok(binaries)
    }

    /// Returns the file of the bundle.
    pub(super) fn bundled(&self) -> BundleFile {
        BundleFile::new(self.name.clone(), self.content.clone(), true)
    }
}

fn read_program(file: &Path) -> Result<(Vec<u8>, &'static [&'static str]), CliError> {
    let wrong = |why: &str| CliError::usage(format!("--binary {}: {why}", file.display()));
    let content = fs::read(file).map_err(|error| wrong(&error.to_string()))?;
    match platforms(&content) {
        Some(platforms) => Ok((content, platforms)),
        None => Err(wrong("it is not a program of Linux, macOS or Windows")),
    }
}

/// Returns the systems that a program runs on, by its first bytes.
pub(super) fn platforms(content: &[u8]) -> Option<&'static [&'static str]> {
    FORMATS.iter().find(|(magic, _)| content.starts_with(magic)).map(|row| row.1)
}
