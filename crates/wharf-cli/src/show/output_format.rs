//! Format of the result, JSON or text for people, and its output on stdout, which carries only the result.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use crate::{
    error::CliError,
    terminal::{Paint, as_shown, clean_json, columns},
};

/// Output of the result, with its format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResultOutput {
    json: bool,
    terminal: bool,
}

impl ResultOutput {
    /// Selects JSON if stdout is not a terminal, or if requested.
    pub(crate) fn new(json: bool) -> Self {
        let terminal = io::stdout().is_terminal();
        ResultOutput { json: json || !terminal, terminal }
    }

    /// True if the result is written as JSON.
    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    pub(crate) fn is_terminal(self) -> bool {
        self.terminal
    }

    pub(crate) fn paint(self) -> Paint {
        Paint::stdout()
    }

    pub(crate) fn columns(self) -> usize {
        columns()
    }

    /// Writes a value as JSON: on one line for programs, on several for people.
    pub(crate) fn json(self, value: &impl Serialize) -> Result<(), CliError> {
        let text = if self.terminal {
            serde_json::to_string_pretty(value)
        } else {
            serde_json::to_string(value)
        };
        let text = text.map_err(|error| CliError::from(io::Error::other(error)))?;
        if self.terminal { self.text(&clean_json(&text)) } else { self.text(&text) }
    }

    /// Writes lines.
    pub(crate) fn lines(self, lines: &[String]) -> Result<(), CliError> {
        if lines.is_empty() { Ok(()) } else { self.text(&lines.join("\n")) }
    }

    fn text(self, text: &str) -> Result<(), CliError> {
        let text = if self.terminal { as_shown(text) } else { text.into() };
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{text}")?;
        Ok(stdout.flush()?)
    }

    /// Writes bytes unchanged.
    pub(crate) fn bytes(self, bytes: &[u8]) -> Result<(), CliError> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        Ok(stdout.flush()?)
    }
}
