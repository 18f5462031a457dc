//! What servers ask, put to whoever sits at the terminal.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use wharf::{Answers, ElicitForm, ElicitUrl, Error, ErrorKind};

use crate::{
    fail::Fail,
    form,
    terminal::{Dialog, Screen, Terminal, somebody_there},
};

/// Asks whoever sits at the terminal; one question at a time.
#[derive(Clone, Debug)]
pub(crate) struct Questions {
    screen: Arc<Screen>,
    server: Arc<Mutex<String>>,
    one_at_a_time: Arc<Mutex<()>>,
}

impl Questions {
    pub(crate) fn new(screen: Arc<Screen>) -> Self {
        Questions { screen, server: Arc::default(), one_at_a_time: Arc::default() }
    }

    /// Names the server that asks.
    pub(crate) fn server_is(&self, name: &str) {
        name.clone_into(&mut self.server.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn server(&self) -> String {
        self.server.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The answers there are: none where nobody sits.
    pub(crate) fn answers(&self) -> Answers {
        if !somebody_there() {
            return Answers::new();
        }
        let (forms, pages) = (self.clone(), self.clone());
        Answers::new()
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

    /// A question that is answered with yes or no; no where nobody sits.
    pub(crate) async fn agree(&self, question: String) -> Result<bool, Fail> {
        let asked = self.put(move |dialog| {
            let line = dialog.ask(&format!("{question} [y]es, [N]o > ")).unwrap_or_default();
            matches!(line.trim().to_lowercase().as_str(), "y" | "yes")
        });
        Ok(asked.await?)
    }

    /// Lets `talk` speak with whoever is there. Threads, because terminals are read in them.
    async fn put<T, F>(&self, talk: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&mut dyn Dialog) -> T + Send + 'static,
    {
        let withdrawn = Withdrawn { screen: self.screen.clone(), over: Arc::default() };
        let (screen, one, over) =
            (self.screen.clone(), self.one_at_a_time.clone(), withdrawn.over.clone());
        let talked = tokio::task::spawn_blocking(move || {
            let _one = one.lock().unwrap_or_else(PoisonError::into_inner);
            if over.load(Ordering::Acquire) {
                return None;
            }
            let said = talk(&mut Terminal::open(screen));
            over.store(true, Ordering::Release);
            Some(said)
        });
        let talked = talked.await.ok().flatten();
        talked.ok_or_else(|| Error::new(ErrorKind::InternalError))
    }
}

/// Tells whoever is being asked when the question is no more.
struct Withdrawn {
    screen: Arc<Screen>,
    over: Arc<AtomicBool>,
}

impl Drop for Withdrawn {
    fn drop(&mut self) {
        if !self.over.swap(true, Ordering::AcqRel) {
            self.screen.line("\nThe question is no longer open; press Enter.");
        }
    }
}
