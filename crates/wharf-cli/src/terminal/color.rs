//! Colour output.

use std::{
    env,
    io::{self, IsTerminal},
};

/// Paints text, or leaves it unchanged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    /// Disables colour.
    #[cfg(test)]
    pub(crate) const PLAIN: Paint = Paint { on: false };

    /// Default colour setting of `stream`.
    pub(crate) fn on(stream: &impl IsTerminal) -> Paint {
        let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Paint { on: stream.is_terminal() && !refused && !is_dumb() }
    }

    /// Default colour setting of stdout.
    pub(crate) fn stdout() -> Paint {
        Paint::on(&io::stdout())
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.wrap("1;31", text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.wrap("33", text)
    }

    pub(crate) fn cyan(self, text: &str) -> String {
        self.wrap("36", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.on && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// True if the terminal cannot redraw lines.
pub(super) fn is_dumb() -> bool {
    env::var_os("TERM").is_some_and(|term| term == "dumb")
}
