//! Terminal output and prompts.

mod clean;
mod color;
mod dialog;
mod invisible;
mod locale;
mod stderr;
mod table;
mod width;

use std::io::{self, IsTerminal};

pub(crate) use crate::terminal::color::Paint;
pub(crate) use crate::terminal::stderr::StderrOutput;
pub(crate) use clean::{clean, clean_json, clean_line, clean_url};
#[cfg(test)]
pub(crate) use dialog::Script;
pub(crate) use dialog::{Dialog, Terminal};
pub(crate) use locale::{ellipsis, shown as as_shown};
pub(crate) use table::table;
pub(crate) use width::{bytes, columns, cut, labelled, rows, width, wrap};

/// True if stdout is a terminal that can redraw lines.
pub(crate) fn can_redraw() -> bool {
    io::stdout().is_terminal() && !color::is_dumb()
}

/// True if a user can be prompted: prompts go to stderr, answers come from stdin.
pub(crate) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}
