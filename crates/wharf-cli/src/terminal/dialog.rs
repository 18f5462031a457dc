//! Questions and answers, a line at a time.

use std::io::{self, Write};

use super::{Paint, Screen};

/// Somebody to talk to.
pub(crate) trait Dialog {
    /// Tells something.
    fn say(&mut self, text: &str);

    /// Asks for one line; none: whoever is there went away.
    fn ask(&mut self, prompt: &str) -> Option<String>;

    /// How to paint what is said.
    fn paint(&self) -> Paint;
}

/// Whoever sits at the terminal.
pub(crate) struct Terminal<'a> {
    screen: &'a Screen,
    /// Whether anybody still wants to know.
    open: &'a dyn Fn() -> bool,
}

impl<'a> Terminal<'a> {
    /// Opens the dialog; the progress waits until it is over.
    pub(crate) fn open(screen: &'a Screen, open: &'a dyn Fn() -> bool) -> Self {
        screen.asking(true);
        Terminal { screen, open }
    }
}

impl Dialog for Terminal<'_> {
    fn say(&mut self, text: &str) {
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
                self.say("");
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

/// A dialog that was written beforehand.
#[cfg(test)]
pub(crate) struct Script {
    answers: std::collections::VecDeque<String>,
    /// All that was said and asked, a line each.
    pub(crate) said: String,
}

#[cfg(test)]
impl Script {
    pub(crate) fn new(answers: &[&str]) -> Self {
        let answers = answers.iter().map(|&answer| answer.to_owned()).collect();
        Script { answers, said: String::new() }
    }
}

#[cfg(test)]
impl Dialog for Script {
    fn say(&mut self, text: &str) {
        self.said.push_str(text);
        self.said.push('\n');
    }

    fn ask(&mut self, prompt: &str) -> Option<String> {
        self.say(prompt);
        self.answers.pop_front()
    }

    fn paint(&self) -> Paint {
        Paint::PLAIN
    }
}
