//! Secrets, which are never passed on the command line.

use std::io::Read as _;

use crate::error::CliError;

/// Maximum length of a secret.
const MAX_SECRET_BYTES: u64 = 64 << 10;

/// Reads the secret at `place`: a file, `@env:NAME`, or `-` for stdin.
pub(crate) fn read(option: &str, place: &str) -> Result<String, CliError> {
    let wrong = |why: String| CliError::usage(format!("{option}: {why}"));
    let text = if place == "-" {
        let mut text = String::new();
        std::io::stdin().take(MAX_SECRET_BYTES).read_to_string(&mut text)?;
        text
    } else if let Some(variable) = place.strip_prefix("@env:") {
        std::env::var(variable)
            .map_err(|_| wrong(format!("the environment variable {variable} is not set")))?
    } else {
        // The value given as a file name may be the secret itself, so the error omits it.
        wharf::server::read_private(place).map_err(|error| {
            wrong(format!("the file cannot be read: {error}")).hint(
                "Put the secret into a file and give its name, or @env:NAME, or - for stdin."
                    .to_owned(),
            )
        })?
    };
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.is_empty() {
        return Err(wrong("the secret is empty".to_owned()));
    }
    Ok(secret.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_secret_that_others_can_read_is_refused() {
        use std::{fs, os::unix::fs::PermissionsExt as _};
        let path = std::env::temp_dir().join(format!("wharf-secret-{}", std::process::id()));
        fs::write(&path, "hunter2\n").unwrap();
        let place = path.to_str().unwrap();
        for (mode, is_taken) in [(0o600, true), (0o400, true), (0o660, false), (0o604, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            match read("--client-secret", place) {
                Ok(secret) => assert!(is_taken && secret == "hunter2", "{mode:o}"),
                Err(fail) => {
                    let fail = fail.json();
                    assert!(!is_taken && fail.contains(&format!("chmod 600 {place}")), "{fail}");
                }
            }
        }
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_secret_on_the_command_line_is_not_repeated() {
        let fail = read("--client-secret", "hunter2").unwrap_err().json();
        assert!(!fail.contains("hunter2") && fail.contains("@env:NAME"), "{fail}");
        assert!(read("--client-secret", "@env:WHARF_NOT_SET").is_err());
        assert_eq!(read("--client-secret", "@env:PATH").unwrap(), std::env::var("PATH").unwrap());
    }
}
