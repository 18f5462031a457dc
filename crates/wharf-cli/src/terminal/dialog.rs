//! Line-based dialog with the user.

use std::io::{self, Write};

use super::{Paint, StderrOutput};

/// Dialog with the user.
pub(crate) trait Dialog {
    /// Prints text.
    fn print(&mut self, text: &str);

    /// Prompts for one line; `None` at end of input.
    fn ask(&mut self, prompt: &str) -> Option<String>;

    /// Colour setting of the dialog.
    fn paint(&self) -> Paint;
}

/// Dialog at the terminal.
pub(crate) struct Terminal<'a> {
    screen: &'a StderrOutput,
    /// False once the prompt is withdrawn.
    open: &'a dyn Fn() -> bool,
}

impl<'a> Terminal<'a> {
    /// Opens the dialog; the progress line is hidden until it is dropped.
    pub(crate) fn open(screen: &'a StderrOutput, open: &'a dyn Fn() -> bool) -> Self {
        screen.asking(true);
        Terminal { screen, open }
    }
}

impl Dialog for Terminal<'_> {
    fn print(&mut self, text: &str) {
        if (self.open)() {
            self.screen.line(text);
        }
    }

    fn ask(&mut self, prompt: &str) -> Option<String> {
        if !(self.open)() {
            return None;
        }
        let _ = write!(io::stderr(), "{prompt}");
        let _ = io::stderr().flush();
        let mut line = String::new();
        match io::stdin().read_line(&mut line) {
            Ok(1..) if (self.open)() => Some(line.trim_end_matches(['\r', '\n']).to_owned()),
            _ => {
                self.print("");
                None
            }
        }
    }

    fn paint(&self) -> Paint {
        self.screen.paint()
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        self.screen.asking(false);
    }
}

/// Scripted dialog for tests.
#[cfg(test)]
pub(crate) struct Script {
    answers: std::collections::VecDeque<String>,
    /// All output and prompts, one per line.
    pub(crate) printed: String,
}

#[cfg(test)]
impl Script {
    pub(crate) fn new(answers: &[&str]) -> Self {
        let answers = answers.iter().map(|&answer| answer.to_owned()).collect();
        Script { answers, printed: String::new() }
    }
}

#[cfg(test)]
impl Dialog for Script {
    fn print(&mut self, text: &str) {
        self.printed.push_str(text);
        self.printed.push('\n');
    }

    fn ask(&mut self, prompt: &str) -> Option<String> {
        self.print(prompt);
        self.answers.pop_front()
    }

    fn paint(&self) -> Paint {
        Paint::PLAIN
    }
}
