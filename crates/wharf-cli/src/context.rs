//! Context of a command: the server, the terminal, the options.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio::task::JoinSet;
use wharf::{
    Client, Error, ErrorKind,
    auth::client::Auth,
    client::{
        CallBuilder, ClientBuilder, ClientHandlerBuilder, Deadline, Stderr, Target, TraceEvent,
    },
    model::Implementation,
};

use crate::{
    auth::{is_known, way_to},
    show::Out,
    terminal::{Screen, clean_line},
    trace::Trace,
    trust,
};
use crate::{
    common_options::{Shared, Speak},
    error::Fail,
    server_requests::Questions,
};

/// Total timeout of a call, unless `--timeout` is longer.
const TOTAL: Duration = Duration::from_mins(10);

/// Delay after which the handshake times out later than the command, whose message names the right option.
const LATER: Duration = Duration::from_millis(250);

/// Hint for a program that exited before the handshake.
const VARIABLES: &str = "It got only a few variables of your environment (PATH, HOME, ...): \
                         --env NAME gives it another.";

/// Hint for a URL that the web server does not have.
const PATH: &str = "Check the path of the URL: many servers are at /mcp.";

/// Server with its headers and its authorization.
struct Found {
    target: Target,
    headers: Vec<(String, String)>,
    way: Option<Auth>,
}

/// Server at a URL.
struct Web {
    url: String,
    /// The user's name for the server.
    word: String,
    /// Set if the user sends an `Authorization` header.
    shows: bool,
}

/// Context of a command.
pub(crate) struct Context {
    pub(crate) shared: Shared,
    pub(crate) out: Out,
    pub(crate) screen: Arc<Screen>,
    pub(crate) questions: Questions,
    /// Deadline of the whole command, from `--timeout`.
    pub(crate) clock: Deadline,
    /// Connections, once they are open.
    clients: OnceLock<Vec<Client>>,
    /// The server, if it is at a URL.
    web: OnceLock<Web>,
}

impl Context {
    pub(crate) fn new(shared: Shared) -> Self {
        let screen = Arc::new(Screen::new());
        let clock = Deadline::new(shared.timeout);
        Context {
            out: Out::new(shared.json),
            questions: Questions::new(screen.clone(), clock.clone()),
            clock,
            screen,
            shared,
            clients: OnceLock::new(),
            web: OnceLock::new(),
        }
    }

    /// Connects to the server.
    pub(crate) async fn connect(&self, target: Target) -> Result<&Client, Fail> {
        self.questions.server_is(&target.to_string());
        let found = self.found(target).await?;
        let builder = self.prepared(&found, self.questions.answers())?;
        let connecting = builder.connect(found.target.clone()).await;
        let client = connecting.map_err(|error| Self::connecting(&found.target, error))?;
        self.questions.server_is(&client.about().info.name);
        let client = &self.clients.get_or_init(|| vec![client])[0];
        if let Some(level) = self.shared.log_level.filter(|_| client.capabilities().logging) {
            client.set_log_level(level).await?;
        }
        Ok(client)
    }

    /// Opens `count` connections, at least one. Server requests are not answered on them.
    pub(crate) async fn connect_many(
        &self,
        target: Target,
        count: usize,
    ) -> Result<&[Client], Fail> {
        let found = self.found(target).await?;
        let connect = || {
            let builder = self.prepared(&found, ClientHandlerBuilder::new())?;
            Ok::<_, Fail>(builder.connect(found.target.clone()))
        };
        // The other connections reuse the protocol version that the first one negotiated.
        let failed = |error| Self::connecting(&found.target, error);
        let mut clients = vec![connect()?.await.map_err(failed)?];
        let mut others = JoinSet::new();
        for _ in 1..count {
            others.spawn(connect()?);
        }
        while let Some(client) = others.join_next().await {
            let client = client.unwrap_or_else(|_| Err(Error::new(ErrorKind::InternalError)));
            clients.push(client.map_err(failed)?);
        }
        Ok(self.clients.get_or_init(|| clients))
    }

    /// Connects to the server at `url` with `auth`, then disconnects.
    pub(crate) async fn try_in(&self, url: &str, auth: &Auth) -> Result<(), Fail> {
        let builder = self.builder(ClientHandlerBuilder::new())?.auth(auth.clone());
        let connecting = builder.connect(url).await;
        // `auth login` has no `--timeout` that a hint could name.
        let client = connecting.map_err(|error| Fail::connecting(error).without_timeout_hint())?;
        client.close().await;
        Ok(())
    }

    /// Resolves the server and its authorization.
    async fn found(&self, target: Target) -> Result<Found, Fail> {
        let word = target.to_string();
        let target = match target {
            Target::Entry(entry) => trust::agreed(*entry, self).await?.into(),
            target => target,
        };
        let (target, headers) = self.located(target)?;
        let mut way = None;
        if let Target::Url(url) = &target {
            way = way_to(url, &headers, self, &word).await?;
            let shows = headers.iter().any(|it| it.0.eq_ignore_ascii_case("authorization"));
            let _ = self.web.set(Web { url: url.clone(), word, shows });
        }
        Ok(Found { target, headers, way })
    }

    /// Client builder for the server.
    fn prepared(
        &self,
        found: &Found,
        answers: ClientHandlerBuilder,
    ) -> Result<ClientBuilder, Fail> {
        let mut builder = self.builder(answers)?;
        if let Some(way) = &found.way {
            builder = builder.auth(way.clone());
        }
        let headers = found.headers.iter().cloned();
        Ok(headers.fold(builder, |it, (name, value)| it.header(name, value)))
    }

    /// True if requests carry credentials: the server may then hide features that the caller is not
    /// authorized for.
    pub(crate) async fn is_known(&self) -> bool {
        match self.web.get() {
            Some(web) => web.shows || is_known(&web.url).await,
            None => false,
        }
    }

    /// Adds a login hint to the failure, if a login helps.
    pub(crate) fn advised(&self, fail: Fail) -> Fail {
        match self.web.get() {
            Some(web) if !web.shows => fail.needs_login(&web.word),
            _ => fail,
        }
    }

    /// Resolves the target and its headers.
    fn located(&self, target: Target) -> Result<(Target, Vec<(String, String)>), Fail> {
        let mut headers = self.shared.header.clone();
        let target = match target {
            Target::Entry(entry) => {
                let (target, more) =
                    entry.resolve().map_err(|error| Fail::usage(error.to_string()))?;
                // Headers of the command line override those of the file.
                let said = |name: &str| headers.iter().any(|it| it.0.eq_ignore_ascii_case(name));
                let more: Vec<_> = more.into_iter().filter(|(name, _)| !said(name)).collect();
                headers.extend(more);
                target
            }
            target => target,
        };
        let target = self.with_variables(target)?;
        let web = matches!(&target, Target::Url(url)
            if url.get(..4).is_some_and(|it| it.eq_ignore_ascii_case("http"))
                || url.get(..2).is_some_and(|it| it.eq_ignore_ascii_case("ws")));
        if !web && !self.shared.header.is_empty() {
            return Err(Fail::usage("--header is for servers at http, https, ws and wss URLs"));
        }
        Ok((target, headers))
    }

    /// Adds the variables of `--env` to a started server. They override those of a file.
    fn with_variables(&self, target: Target) -> Result<Target, Fail> {
        match target {
            Target::Command(mut command) => {
                command.env.extend(self.shared.env.iter().cloned());
                Ok(Target::Command(command))
            }
            _ if !self.shared.env.is_empty() => {
                Err(Fail::usage("--env is for servers that are started"))
            }
            target => Ok(target),
        }
    }

    /// Error of a connection attempt, with a hint for a missing variable or a wrong path.
    fn connecting(target: &Target, error: Error) -> Fail {
        let hint = match target {
            Target::Command(_) if error.message.contains("it ended with") => Some(VARIABLES),
            Target::Url(_) if error.message.contains("404 Not Found") => Some(PATH),
            _ => None,
        };
        Fail::connecting(error).hint(hint.map(str::to_owned))
    }

    fn builder(&self, answers: ClientHandlerBuilder) -> Result<ClientBuilder, Fail> {
        let roots = self.shared.roots()?;
        let answers = if roots.is_empty() { answers } else { answers.fixed_roots(roots) };
        let mut builder = Client::builder()
            .info(Implementation::new("wharf", env!("CARGO_PKG_VERSION")).title("Wharf"))
            .answers(answers)
            .stderr(Stderr::Null);
        if self.shared.trace || self.shared.stderr {
            let trace = Trace::new(self.shared.trace, self.screen.clone());
            builder =
                builder.stderr(Stderr::Note).trace(move |what: TraceEvent<'_>| trace.see(what));
        }
        builder = match self.shared.era {
            Some(Speak::Any(era)) => builder.era(era),
            Some(Speak::Only(pin)) => builder.pin(pin),
            None => builder,
        };
        if let Some(timeout) = self.shared.timeout {
            // `--timeout` also applies to servers that are slow to start.
            let handshake = timeout.saturating_add(LATER);
            builder = builder.timeout(timeout).total(timeout.max(TOTAL)).handshake(handshake);
        }
        if let Some(level) = self.shared.log_level {
            builder = builder.log_level(level);
        }
        Ok(match verdicts() {
            Some(file) => builder.verdicts_in(file),
            None => builder,
        })
    }

    /// Makes a call and shows its progress.
    pub(crate) async fn watch<T: 'static>(&self, mut calling: CallBuilder<T>) -> Result<T, Fail> {
        if self.screen.draws() {
            let screen = self.screen.clone();
            calling = calling.on_progress(move |progress| screen.progress(&progress));
            let screen = self.screen.clone();
            calling = calling.on_task(move |task| screen.task(task));
        }
        if let Some(least) = self.shared.log_level {
            let screen = self.screen.clone();
            // A server that received no log level sends messages of every level.
            calling = calling.on_log(move |message| {
                if message.level >= least {
                    screen.log(&message);
                }
            });
        }
        let result = calling.await;
        self.screen.clear();
        Ok(result?)
    }

    /// Error for an expired `--timeout`.
    pub(crate) fn out_of_time(&self) -> Fail {
        let limit = self.shared.timeout.unwrap_or_default();
        let message = format!("The command took longer than {limit:?}");
        Error::new(ErrorKind::RequestTimeout).with_message(message).into()
    }

    /// Closes all connections concurrently.
    pub(crate) async fn close(&self) {
        let clients = self.clients.get().cloned().unwrap_or_default();
        let closing = clients.into_iter().map(|client| async move { client.close().await });
        closing.collect::<JoinSet<()>>().join_all().await;
    }

    /// Writes a note to stderr, only at a terminal.
    pub(crate) fn tell(&self, text: &str) {
        if self.screen.is_terminal() {
            let paint = self.screen.paint();
            self.screen.line(&paint.dim(&clean_line(text)));
        }
    }
}

/// Cache file of the protocol version of each server.
fn verdicts() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let cache = if cfg!(windows) {
        set("LOCALAPPDATA")?
    } else if cfg!(target_os = "macos") {
        std::env::home_dir()?.join("Library/Caches")
    } else {
        set("XDG_CACHE_HOME").or_else(|| Some(std::env::home_dir()?.join(".cache")))?
    };
    Some(cache.join("wharf").join("revisions.json"))
}
