//! Filter of log lines, from the environment.

use tracing_subscriber::filter::{ParseError, Targets};

use super::LogConfigError;

/// Environment variables with the filter; the first one that is set applies.
const VARIABLES: [&str; 2] = ["WHARF_LOG", "RUST_LOG"];

const ADVICE: &str =
    "write a level (error, warn, info, debug, trace, off) or MODULE=LEVEL, separated by commas";

/// Words that other programs use as levels. As names of modules they would silently hide every line.
const FOREIGN_LEVELS: [&str; 13] = [
    "all",
    "critical",
    "dbg",
    "err",
    "fatal",
    "inf",
    "information",
    "none",
    "notice",
    "quiet",
    "silent",
    "verbose",
    "warning",
];

/// Reads the filter of the environment, or else parses `otherwise`.
pub(super) fn read_filter(
    variable: impl Fn(&str) -> Option<String>,
    otherwise: &str,
) -> Result<Targets, LogConfigError> {
    let set = |name: &'static str| Some((name, variable(name).filter(|it| !it.trim().is_empty())?));
    match VARIABLES.into_iter().find_map(set) {
        Some((name, text)) => parse(&text).map_err(|error| error.in_setting(name)),
        None => parse(otherwise).map_err(|error| error.in_setting("filter of log lines")),
    }
}

impl LogConfigError {
    fn in_setting(self, name: &str) -> Self {
        LogConfigError { text: format!("{name}: {}: {ADVICE}", self.text), ..self }
    }
}

fn parse(text: &str) -> Result<Targets, LogConfigError> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let directive = |part: &str| -> Result<Targets, LogConfigError> {
        let is_foreign = FOREIGN_LEVELS.iter().any(|it| part.eq_ignore_ascii_case(it));
        let is_name = |it: char| it.is_alphanumeric() || "_:-.".contains(it);
        let target = part.split_once('=').map_or(part, |it| it.0);
        if is_foreign || !target.chars().all(is_name) || target.is_empty() {
            let problem = format!("{part:?} is neither a level nor the name of a module");
            return Err(LogConfigError::new(problem));
        }
        part.parse().map_err(|error: ParseError| {
            LogConfigError::new(format!("{part:?} has an unknown level")).because(error)
        })
    };
    parts.map(directive).try_fold(Targets::new(), |all, next| {
        let next = next?;
        let all = next.default_level().into_iter().fold(all, Targets::with_default);
        Ok(all.with_targets(next))
    })
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn the_filter_of_wharf_comes_first() {
        let variable = |name: &str| match name {
            "WHARF_LOG" => Some("warn, wharf_server::tasks = debug".replace(" = ", "=")),
            _ => Some("trace".to_owned()),
        };
        let filter = read_filter(variable, "off").unwrap();
        assert!(filter.would_enable("wharf_server::tasks::run", &Level::DEBUG));
        assert!(filter.would_enable("app", &Level::WARN));
        assert!(!filter.would_enable("app", &Level::INFO));
        let empty = |name: &str| Some(if name == "RUST_LOG" { "INFO" } else { " " }.to_owned());
        assert!(read_filter(empty, "off").unwrap().would_enable("app", &Level::INFO));
        assert!(!read_filter(|_| None, "off").unwrap().would_enable("app", &Level::ERROR));
    }

    #[test]
    fn an_invalid_filter_names_its_variable_and_part() {
        for (text, part) in [
            ("wharf=loud", "\"wharf=loud\" has an unknown level"),
            ("info,warning", "\"warning\" is neither a level nor the name of a module"),
            ("[call]=info", "\"[call]=info\" is neither a level nor the name of a module"),
            ("a b", "\"a b\" is neither a level nor the name of a module"),
            ("=info", "\"=info\" is neither a level nor the name of a module"),
            ("a=info=debug", "\"a=info=debug\" has an unknown level"),
        ] {
            let error = read_filter(|_| Some(text.to_owned()), "warn").unwrap_err();
            assert_eq!(error.to_string(), format!("WHARF_LOG: {part}: {ADVICE}"), "{text}");
            let source = std::error::Error::source(&error);
            let is_from_parser = source.is_some_and(|source| source.is::<ParseError>());
            assert_eq!(is_from_parser, part.ends_with("an unknown level"), "{text}");
        }
    }
}
