//! Server requests (elicitation) at the terminal.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU8, Ordering},
};

use wharf::{
    Error, ErrorKind,
    client::{ClientHandlerBuilder, Deadline},
    model::{ElicitForm, ElicitUrl},
};

use crate::{
    error::CliError,
    form,
    terminal::{Dialog, StderrOutput, Terminal, is_interactive},
};

/// Prompts the user at the terminal, one prompt at a time.
#[derive(Clone, Debug)]
pub(crate) struct TerminalPrompts {
    screen: Arc<StderrOutput>,
    server: Arc<Mutex<String>>,
    one_at_a_time: Arc<Mutex<()>>,
    clock: Deadline,
    /// Set when no further output is allowed.
    silenced: Arc<AtomicBool>,
}

impl TerminalPrompts {
    pub(crate) fn new(screen: Arc<StderrOutput>, clock: Deadline) -> Self {
        let (server, one_at_a_time, silenced) = Default::default();
        TerminalPrompts { screen, server, one_at_a_time, clock, silenced }
    }

    /// Ends all prompts without output.
    pub(crate) fn end(&self) {
        self.silenced.store(true, Ordering::Release);
        if self.screen.is_asking() {
            self.screen.line("");
        }
    }

    /// Sets the name of the requesting server.
    pub(crate) fn server_is(&self, name: &str) {
        name.clone_into(&mut self.server.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn server(&self) -> String {
        self.server.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Elicitation handlers; none without a terminal.
    pub(crate) fn client_handler(&self) -> ClientHandlerBuilder {
        if !is_interactive() {
            return ClientHandlerBuilder::new();
        }
        let (forms, pages) = (self.clone(), self.clone());
        ClientHandlerBuilder::new()
            .elicit(move |form: ElicitForm| {
                let (server, here) = (forms.server(), forms.clone());
                async move { here.put(move |dialog| form::fill(&server, &form, dialog)).await }
            })
            .elicit_url(move |page: ElicitUrl| {
                let (server, here) = (pages.server(), pages.clone());
                let visit =
                    move |dialog: &mut dyn Dialog| form::visit(&server, &page, dialog, form::open);
                async move { here.put(visit).await }
            })
    }

    /// Prompts for yes or no; end of input is no.
    pub(crate) async fn agree(&self, question: String) -> Result<bool, CliError> {
        let asked = self.put(move |dialog| {
            let line = dialog.ask(&format!("{question} [y]es, [N]o > ")).unwrap_or_default();
            matches!(line.trim().to_lowercase().as_str(), "y" | "yes")
        });
        Ok(asked.await?)
    }

    /// Prompts for one line; `None` at end of input. When the `last` prompt is withdrawn, nothing
    /// is printed, because no later prompt needs the terminal.
    pub(crate) async fn line(&self, prompt: &'static str, last: bool) -> Option<String> {
        let asked = self.run_dialog(move |dialog| dialog.ask(prompt), last);
        asked.await.ok().flatten()
    }

    /// Runs the dialog `talk` with the user.
    async fn put<T, F>(&self, dialog: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&mut dyn Dialog) -> T + Send + 'static,
    {
        self.run_dialog(dialog, false).await
    }

    /// Runs the dialog in a blocking thread, because terminal reads block.
    async fn run_dialog<T, F>(&self, dialog: F, last: bool) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&mut dyn Dialog) -> T + Send + 'static,
    {
        // The time of the user does not count towards the timeout.
        let _paused = self.clock.pause();
        let state: Arc<AtomicU8> = Arc::default();
        let _withdrawn = PromptGuard { questions: self.clone(), state: state.clone(), last };
        let (screen, one) = (self.screen.clone(), self.one_at_a_time.clone());
        let talked = tokio::task::spawn_blocking(move || {
            let _one = one.lock().unwrap_or_else(PoisonError::into_inner);
            // A prompt that was withdrawn while it waited for others is not shown.
            let still = state.compare_exchange(
                PROMPT_WAITING,
                PROMPT_OPEN,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            still.ok()?;
            let open = || state.load(Ordering::Acquire) == PROMPT_OPEN;
            let said = dialog(&mut Terminal::open(&screen, &open));
            state.store(PROMPT_ENDED, Ordering::Release);
            Some(said)
        });
        let talked = talked.await.ok().flatten();
        talked.ok_or_else(|| Error::new(ErrorKind::InternalError))
    }
}

const PROMPT_WAITING: u8 = 0;
const PROMPT_OPEN: u8 = 1;
const PROMPT_ENDED: u8 = 2;

/// Notifies the user when a prompt is withdrawn.
struct PromptGuard {
    questions: TerminalPrompts,
    state: Arc<AtomicU8>,
    last: bool,
}

impl Drop for PromptGuard {
    fn drop(&mut self) {
        let asking = self.state.swap(PROMPT_ENDED, Ordering::AcqRel) == PROMPT_OPEN;
        if asking && !self.questions.silenced.load(Ordering::Acquire) {
            let told = if self.last { "" } else { "\nThe prompt was withdrawn; press Enter." };
            self.questions.screen.line(told);
        }
    }
}
