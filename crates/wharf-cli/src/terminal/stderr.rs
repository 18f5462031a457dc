//! Stderr, which carries everything except the result.

use std::{
    io::{self, IsTerminal, Write},
    sync::{Mutex, MutexGuard, PoisonError},
};

use wharf::{
    client::{LogMessage, Progress},
    tasks::Task,
};

use crate::terminal::{Paint, clean_line, color::is_dumb, columns, cut, locale::shown, width};

/// Width of the progress bar if there is room.
const BAR_WIDTH: usize = 24;

/// Divisor of the line width for the bar in a narrow terminal, since the figures after it matter
/// more.
const BAR_WIDTH_DIVISOR: usize = 3;

/// Writes to stderr, and keeps one line there for the progress of a call.
#[derive(Debug)]
pub(crate) struct StderrOutput {
    terminal: bool,
    /// Set if a line can be redrawn.
    draws: bool,
    paint: Paint,
    state: Mutex<ProgressState>,
}

#[derive(Debug, Default)]
struct ProgressState {
    /// Visible progress line.
    line: Option<String>,
    /// Task that the call became: its status and message, and its progress.
    task: Option<(String, String)>,
    progress: Option<String>,
    /// Set during a prompt, which must not be overdrawn.
    asking: bool,
}

impl StderrOutput {
    pub(crate) fn new() -> Self {
        let stderr = io::stderr();
        let terminal = stderr.is_terminal();
        let draws = terminal && !is_dumb();
        StderrOutput { terminal, draws, paint: Paint::on(&stderr), state: Mutex::default() }
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    pub(crate) fn paint(&self) -> Paint {
        self.paint
    }

    /// Writes one line above the progress. A closed stderr is not an error.
    pub(crate) fn line(&self, text: &str) {
        let text = if self.terminal { shown(text) } else { text.into() };
        let mut state = self.lock();
        let again = state.line.take();
        let _ = if again.is_some() {
            writeln!(io::stderr(), "\r\x1b[K{text}")
        } else {
            writeln!(io::stderr(), "{text}")
        };
        if let Some(line) = again {
            draw(&mut state, line);
        }
    }

    /// True if progress can be shown.
    pub(crate) fn draws(&self) -> bool {
        self.draws
    }

    /// Shows the progress of a call, at a terminal only.
    pub(crate) fn progress(&self, progress: &Progress) {
        let message = progress.message.as_deref().unwrap_or_default();
        if !self.draws {
            return;
        }
        let mut state = self.lock();
        match &mut state.task {
            Some((_, said)) => {
                clean_line(message).as_ref().clone_into(said);
                state.progress = Some(steps(progress.progress, progress.total));
                draw_task(&mut state);
            }
            None => {
                drop(state);
                self.bar(progress.progress, progress.total, message);
            }
        }
    }

    /// Shows a progress bar with `text` beside it, at a terminal only.
    pub(crate) fn bar(&self, done: f64, total: Option<f64>, text: &str) {
        if self.draws {
            let wide = BAR_WIDTH.min(columns() / BAR_WIDTH_DIVISOR);
            let line = format!("{} {}", bar(done, total, wide), clean_line(text));
            draw(&mut self.lock(), cut(&line, columns() - 1));
        }
    }

    /// Shows the state of the task that a call became, at a terminal only.
    pub(crate) fn task(&self, task: &Task) {
        let status = task.status();
        if self.draws && !status.is_terminal() {
            let message = clean_line(task.message.as_deref().unwrap_or_default());
            let mut state = self.lock();
            state.task = Some((status.as_str().to_owned(), message.into_owned()));
            draw_task(&mut state);
        }
    }

    /// Shows a log message: as text at a terminal, else as one line of JSON.
    pub(crate) fn log(&self, message: &LogMessage) {
        let LogMessage { level, logger, data, .. } = message;
        if !self.terminal {
            let line = serde_json::json!({"level": level, "logger": logger, "data": data});
            return self.line(&serde_json::json!({"log": line}).to_string());
        }
        let logger = logger.as_deref().map(|name| format!("{}: ", clean_line(name)));
        // A string is shown without its quotes.
        let text: Option<String> = serde_json::from_str(data.get()).ok();
        let text = text.as_deref().unwrap_or_else(|| data.get());
        let level = self.paint.yellow(&format!("{:<7}", level.as_str()));
        self.line(&format!("{level} {}{}", logger.unwrap_or_default(), clean_line(text)));
    }

    /// Removes the progress line.
    pub(crate) fn clear(&self) {
        let mut state = self.lock();
        (state.task, state.progress) = (None, None);
        if state.line.take().is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    /// Suspends the progress line while `asking`.
    pub(crate) fn asking(&self, asking: bool) {
        self.clear();
        self.lock().asking = asking;
    }

    pub(crate) fn is_asking(&self) -> bool {
        self.lock().asking
    }

    fn lock(&self) -> MutexGuard<'_, ProgressState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `[working] 7 of 20: day 7 at sea`
fn draw_task(state: &mut ProgressState) {
    let Some((status, message)) = &state.task else { return };
    // Servers often repeat the figures in their message.
    let steps = state.progress.as_deref().filter(|steps| !message.starts_with(steps));
    let parts: Vec<&str> = steps.into_iter().chain([message.as_str()]).collect();
    let line = format!("[{status}] {}", parts.join(": "));
    let line = cut(line.trim_end_matches([' ', ':']), columns() - 1);
    draw(state, line);
}

/// `7 of 20`, or `7` without a known total.
fn steps(done: f64, total: Option<f64>) -> String {
    match total.filter(|total| total.is_finite() && *total > 0.0) {
        Some(total) => format!("{done} of {total}"),
        None => done.to_string(),
    }
}

fn draw(state: &mut ProgressState, line: String) {
    if !state.asking {
        let _ = write!(io::stderr(), "\r{}\x1b[K", shown(&line));
        state.line = Some(line);
    }
}

/// `[######------]  50%`, or the count without a known total.
fn bar(done: f64, total: Option<f64>, wide: usize) -> String {
    let Some(total) = total.filter(|total| *total > 0.0 && done.is_finite()) else {
        return format!("[{}] {done}", "·".repeat(wide));
    };
    let part = (done / total).clamp(0.0, 1.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    let filled = (part * wide as f64).round() as usize;
    let bar = format!("{}{}", "#".repeat(filled), "-".repeat(wide.saturating_sub(filled)));
    debug_assert_eq!(width(&bar), wide);
    format!("[{bar}] {:3.0}%", part * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_progress_bar_stays_within_bounds() {
        assert_eq!(bar(1.0, Some(2.0), BAR_WIDTH), "[############------------]  50%");
        assert_eq!(bar(9.0, Some(2.0), BAR_WIDTH), "[########################] 100%");
        assert_eq!(bar(-1.0, Some(2.0), BAR_WIDTH), "[------------------------]   0%");
        for (done, total) in [(3.0, None), (3.0, Some(0.0)), (f64::NAN, Some(1.0))] {
            assert!(bar(done, total, BAR_WIDTH).contains("····"));
        }
        assert_eq!(bar(1.0, Some(2.0), 6), "[###---]  50%");
        assert!(bar(1.0, Some(f64::NAN), BAR_WIDTH).contains("····"));
    }

    #[test]
    fn task_steps_are_formatted() {
        assert_eq!(steps(7.0, Some(20.0)), "7 of 20");
        assert_eq!(steps(7.5, None), "7.5");
        assert_eq!(steps(7.0, Some(f64::NAN)), "7");
    }
}
