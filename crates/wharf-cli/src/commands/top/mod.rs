//! `wharf top`: activity of a server, from the metrics at its admin listener.

mod exposition;
mod report;
mod scrape;
mod snapshot;
mod view;

use std::{
    future::Future,
    io::{self, Write as _},
    pin::pin,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::time::sleep;

use self::{report::TopReport, scrape::AdminTarget, snapshot::Snapshot};
use crate::{cli::Top, error::CliError, show::ResultOutput, terminal};

/// Time between two scrapes without `--interval`.
const INTERVAL: Duration = Duration::from_secs(1);

/// Switches to the alternate screen and hides the cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

impl Top {
    /// Shows a report per interval, until `interrupt` completes.
    pub(crate) async fn run(
        &self,
        interrupt: impl Future<Output = CliError>,
    ) -> Result<(), CliError> {
        let target = AdminTarget::parse(&self.target)?;
        let out = ResultOutput::new(self.json);
        let mut interrupt = pin!(interrupt);
        let mut display = Display { out, screen: None };
        tokio::select! {
            biased;
            result = self.watch(&target, &mut display) => result,
            fail = &mut interrupt => Err(fail),
        }
    }

    async fn watch(&self, target: &AdminTarget, display: &mut Display) -> Result<(), CliError> {
        let interval = self.interval.unwrap_or(INTERVAL);
        let mut before = target.scrape().await?;
        loop {
            sleep(interval).await;
            match target.scrape().await {
                Ok(now) => {
                    display.show(&report(target, &before, &now), self.once)?;
                    before = now;
                }
                // A server that is started again is shown again.
                Err(error) if display.is_live() => {
                    display.draw(&[error.text(display.out.paint())])?
                }
                Err(error) => return Err(error),
            }
            if self.once {
                return Ok(());
            }
        }
    }
}

fn report(target: &AdminTarget, before: &Snapshot, now: &Snapshot) -> TopReport {
    let unix_time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    TopReport::new(&target.name, before, now, unix_time.as_secs_f64())
}

/// Output of the reports: JSON lines, blocks of text, or a screen that is drawn again.
struct Display {
    out: ResultOutput,
    screen: Option<LiveScreen>,
}

impl Display {
    fn show(&mut self, report: &TopReport, once: bool) -> Result<(), CliError> {
        if self.out.is_json() {
            return self.out.json(report);
        }
        let lines = |columns| view::lines(report, columns, self.out.paint());
        if once || !terminal::can_redraw() {
            return self.out.lines(&lines(self.out.columns()));
        }
        // In the last column, the cursor would be on it, and erasing to the end of the line would erase it.
        let lines = lines(self.out.columns() - 1);
        self.draw(&lines)
    }

    /// True once a screen is drawn.
    fn is_live(&self) -> bool {
        self.screen.is_some()
    }

    fn draw(&mut self, lines: &[String]) -> Result<(), CliError> {
        let rows = terminal::rows();
        let mut text = String::from("\x1b[H");
        for line in lines.iter().take(rows.saturating_sub(1)) {
            text.push_str(&terminal::as_shown(line));
            text.push_str("\x1b[K\r\n");
        }
        text.push_str("\x1b[J");
        self.screen.get_or_insert_with(LiveScreen::enter);
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        Ok(stdout.flush()?)
    }
}

/// The alternate screen, until it is dropped.
struct LiveScreen;

impl LiveScreen {
    fn enter() -> Self {
        let _ = io::stdout().write_all(ENTER.as_bytes());
        LiveScreen
    }
}

impl Drop for LiveScreen {
    fn drop(&mut self) {
        let mut stdout = io::stdout().lock();
        let _ = stdout.write_all(LEAVE.as_bytes());
        let _ = stdout.flush();
    }
}
