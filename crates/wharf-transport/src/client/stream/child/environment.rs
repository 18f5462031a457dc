//! The environment of a child process.

use std::{env, ffi::OsString};

/// Selects the variables of this program's environment that a child gets, before those of
/// [`ChildCommand::env`](crate::client::stream::child::ChildCommand::env).
///
/// ```
/// # mod wharf { pub use wharf_transport::client; }
/// use wharf::client::{ChildCommand, Environment};
///
/// let command = ChildCommand::new("my-server");
/// assert_eq!(command.environment, Environment::Basic);
/// assert_eq!(command.clear_env().environment, Environment::Clear);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Environment {
    /// A short list that programs need to start and to find their files: `HOME`, `PATH`, `LANG`,
    /// `LC_*`, `LOGNAME`, `SHELL`, `TERM`, `TMPDIR`, `USER`; on Windows their equivalents.
    #[default]
    Basic,
    /// All variables, except the keys of a Wharf server (`WHARF_STATE_KEY`,
    /// `WHARF_STATE_KEY_FILE`), its admin address (`WHARF_ADMIN`), and the headers of its telemetry
    /// (`OTEL_EXPORTER_OTLP_HEADERS` and those of a signal).
    Inherit,
    /// No variables.
    Clear,
}

#[cfg(not(windows))]
const BASIC: [&str; 8] = ["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER"];

#[cfg(windows)]
const BASIC: [&str; 20] = [
    "APPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LANG",
    "LOCALAPPDATA",
    "PATH",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "PROGRAMFILES(X86)",
    "PROGRAMW6432",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
];

/// Variables of one server: the keys that encrypt its state, the address of its admin listener, and the headers of its
/// export, which have credentials.
const NEVER_INHERITED: [&str; 6] = [
    "WHARF_STATE_KEY",
    "WHARF_STATE_KEY_FILE",
    "WHARF_ADMIN",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
];

impl Environment {
    /// The variables that the child gets.
    pub(super) fn variables(self) -> Vec<(OsString, OsString)> {
        match self {
            Environment::Clear => Vec::new(),
            _ => env::vars_os().filter(|(name, value)| self.passes(name, value)).collect(),
        }
    }

    fn passes(self, name: &OsString, value: &OsString) -> bool {
        // A name that is not UTF-8 is in no list.
        let name = name.to_string_lossy();
        match self {
            Environment::Clear => false,
            Environment::Inherit => !NEVER_INHERITED.iter().any(|key| is_same(&name, key)),
            // Old shells export functions in variables.
            Environment::Basic => {
                let is_function = value.to_string_lossy().starts_with("()");
                let is_listed = BASIC.iter().any(|known| is_same(&name, known));
                (is_listed || name.starts_with("LC_")) && !is_function
            }
        }
    }
}

/// Windows ignores case in these names.
fn is_same(name: &str, known: &str) -> bool {
    if cfg!(windows) { name.eq_ignore_ascii_case(known) } else { name == known }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_list_has_what_programs_need_and_no_secrets() {
        let passes = |environment: Environment, name: &str| {
            environment.passes(&name.into(), &OsString::from("value"))
        };
        for (name, basic, inherited) in [
            ("PATH", true, true),
            ("LC_CTYPE", true, true),
            ("AWS_SECRET_ACCESS_KEY", false, true),
            ("LD_PRELOAD", false, true),
            ("WHARF_STATE_KEY", false, false),
            ("WHARF_STATE_KEY_FILE", false, false),
            ("WHARF_ADMIN", false, false),
            ("OTEL_EXPORTER_OTLP_HEADERS", false, false),
        ] {
            assert_eq!(passes(Environment::Basic, name), basic, "{name}");
            assert_eq!(passes(Environment::Inherit, name), inherited, "{name}");
            assert!(!passes(Environment::Clear, name), "{name}");
        }
        let function = OsString::from("() { :; }");
        assert!(!Environment::Basic.passes(&"TERM".into(), &function));
    }
}
