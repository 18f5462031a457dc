//! Context of a command: the server, the terminal, the options.

use std::{
    io,
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio::task::JoinSet;
use wharf::{
    Client, ErrorKind,
    auth::client::Auth,
    client::{
        CallBuilder, ClientBuilder, ClientHandlerBuilder, ConnectError, Deadline, Stderr, Target,
        TraceEvent,
    },
    model::Implementation,
};

use crate::{
    auth::{auth_for, has_stored_login},
    show::ResultOutput,
    terminal::{StderrOutput, clean_line},
    trace::MessageTrace,
    trust,
};
use crate::{
    common_options::{CommonOptions, TOTAL_TIMEOUT, VersionChoice},
    error::CliError,
    server_requests::TerminalPrompts,
};

/// Delay after which the handshake times out later than the command, whose message names the right option.
const HANDSHAKE_MARGIN: Duration = Duration::from_millis(250);

/// Hint for a program that exited before the handshake.
const ENV_HINT: &str = "It got only a few of your environment variables (PATH, HOME, ...): \
                         --env NAME passes another.";

/// Hint for a URL that the server does not have.
const PATH_HINT: &str = "Check the path of the URL: many servers are at /mcp.";

/// Server with its headers and its authorization.
pub(crate) struct ResolvedServer {
    pub(crate) target: Target,
    headers: Vec<(String, String)>,
    auth: Option<Auth>,
}

/// Server at a URL.
struct HttpTarget {
    url: String,
    /// The user's name for the server.
    word: String,
    /// Set if the user sends an `Authorization` header.
    sends_authorization: bool,
}

/// Context of a command.
pub(crate) struct Context {
    pub(crate) shared: CommonOptions,
    pub(crate) out: ResultOutput,
    pub(crate) screen: Arc<StderrOutput>,
    pub(crate) questions: TerminalPrompts,
    /// Deadline of the whole command, from `--timeout`.
    pub(crate) clock: Deadline,
    /// Connections, once they are open.
    clients: OnceLock<Vec<Client>>,
    /// The server, if it is at a URL.
    http_target: OnceLock<HttpTarget>,
}

impl Context {
    pub(crate) fn new(shared: CommonOptions) -> Self {
        let screen = Arc::new(StderrOutput::new());
        let clock = Deadline::new(shared.timeout);
        Context {
            out: ResultOutput::new(shared.json),
            questions: TerminalPrompts::new(screen.clone(), clock.clone()),
            clock,
            screen,
            shared,
            clients: OnceLock::new(),
            http_target: OnceLock::new(),
        }
    }

    /// Connects to the server.
    pub(crate) async fn connect(&self, target: Target) -> Result<&Client, CliError> {
        self.questions.server_is(&target.to_string());
        let found = self.resolve_server(target).await?;
        let builder = self.client_builder(&found, self.questions.client_handler())?;
        let connecting = builder.connect(found.target.clone()).await;
        let client = connecting.map_err(|error| Self::connect_error(&found.target, error))?;
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
    ) -> Result<&[Client], CliError> {
        let found = self.resolve_server(target).await?;
        let connect = || {
            let builder = self.client_builder(&found, ClientHandlerBuilder::new())?;
            Ok::<_, CliError>(builder.connect(found.target.clone()))
        };
        // The other connections reuse the protocol version that the first one negotiated.
        let failed = |error| Self::connect_error(&found.target, error);
        let mut clients = vec![connect()?.await.map_err(failed)?];
        let mut others = JoinSet::new();
        for _ in 1..count {
            others.spawn(connect()?);
        }
        while let Some(client) = others.join_next().await {
            let client = client.map_err(|error| CliError::from(io::Error::other(error)))?;
            clients.push(client.map_err(failed)?);
        }
        Ok(self.clients.get_or_init(|| clients))
    }

    /// Connects to the server at `url` with `auth`, then disconnects.
    pub(crate) async fn probe(&self, url: &str, auth: &Auth) -> Result<(), CliError> {
        let builder = self.builder(ClientHandlerBuilder::new())?.auth(auth.clone());
        let connecting = builder.connect(url).await;
        // `auth login` has no `--timeout` that a hint could name.
        let client =
            connecting.map_err(|error| CliError::connecting(error).without_timeout_hint())?;
        client.close().await;
        Ok(())
    }

    /// Resolves the server and its authorization.
    pub(crate) async fn resolve_server(&self, target: Target) -> Result<ResolvedServer, CliError> {
        let word = target.to_string();
        let target = match target {
            Target::Entry(entry) => trust::agreed(*entry, self).await?.into(),
            target => target,
        };
        let (target, headers) = self.resolve_target(target)?;
        let mut auth = None;
        if let Target::Url(url) = &target {
            auth = auth_for(url, &headers, self, &word).await?;
            let sends_authorization =
                headers.iter().any(|it| it.0.eq_ignore_ascii_case("authorization"));
            let _ =
                self.http_target.set(HttpTarget { url: url.clone(), word, sends_authorization });
        }
        Ok(ResolvedServer { target, headers, auth })
    }

    /// Client builder for the server.
    pub(crate) fn client_builder(
        &self,
        found: &ResolvedServer,
        handler: ClientHandlerBuilder,
    ) -> Result<ClientBuilder, CliError> {
        let mut builder = self.builder(handler)?;
        if let Some(auth) = &found.auth {
            builder = builder.auth(auth.clone());
        }
        let headers = found.headers.iter().cloned();
        Ok(headers.fold(builder, |it, (name, value)| it.header(name, value)))
    }

    /// True if requests carry credentials: the server may then hide features that the caller is not
    /// authorized for.
    pub(crate) async fn sends_credentials(&self) -> bool {
        match self.http_target.get() {
            Some(http_target) => {
                http_target.sends_authorization || has_stored_login(&http_target.url).await
            }
            None => false,
        }
    }

    /// Adds a login hint to the failure, if a login helps.
    pub(crate) fn with_login_hint(&self, fail: CliError) -> CliError {
        match self.http_target.get() {
            Some(http_target) if !http_target.sends_authorization => {
                fail.needs_login(&http_target.word)
            }
            _ => fail,
        }
    }

    /// Resolves the target and its headers.
    fn resolve_target(&self, target: Target) -> Result<(Target, Vec<(String, String)>), CliError> {
        let mut headers = self.shared.header.clone();
        let target = match target {
            Target::Entry(entry) => {
                let (target, more) =
                    entry.resolve().map_err(|error| CliError::usage(error.to_string()))?;
                // Headers of the command line override those of the file.
                let said = |name: &str| headers.iter().any(|it| it.0.eq_ignore_ascii_case(name));
                let more: Vec<_> = more.into_iter().filter(|(name, _)| !said(name)).collect();
                headers.extend(more);
                target
            }
            target => target,
        };
        let target = self.with_variables(target)?;
        let http_target = matches!(&target, Target::Url(url)
            if url.get(..4).is_some_and(|it| it.eq_ignore_ascii_case("http"))
                || url.get(..2).is_some_and(|it| it.eq_ignore_ascii_case("ws")));
        if !http_target && !self.shared.header.is_empty() {
            return Err(CliError::usage("--header is for servers at http, https, ws and wss URLs"));
        }
        if !http_target && self.shared.connection.is_set() {
            return Err(CliError::usage(
                "--cacert, --cert, --key and --proxy are for servers at http, https, ws and wss URLs",
            ));
        }
        Ok((target, headers))
    }

    /// Adds the variables of `--env` to a started server. They override those of a file.
    fn with_variables(&self, target: Target) -> Result<Target, CliError> {
        match target {
            Target::Command(mut command) => {
                command.env.extend(self.shared.env.iter().cloned());
                Ok(Target::Command(command))
            }
            _ if !self.shared.env.is_empty() => {
                Err(CliError::usage("--env is for servers that are started"))
            }
            target => Ok(target),
        }
    }

    /// Error of a connection attempt, with a hint for a missing variable or a wrong path.
    pub(crate) fn connect_error(target: &Target, error: ConnectError) -> CliError {
        let hint = match target {
            Target::Command(_) if error.message().contains("it ended with") => Some(ENV_HINT),
            Target::Url(_) if error.message().contains("404 Not Found") => Some(PATH_HINT),
            _ => None,
        };
        CliError::connecting(error).hint(hint.map(str::to_owned))
    }

    fn builder(&self, handler: ClientHandlerBuilder) -> Result<ClientBuilder, CliError> {
        let roots = self.shared.roots()?;
        let handler = if roots.is_empty() { handler } else { handler.fixed_roots(roots) };
        let builder = Client::builder()
            .info(Implementation::new("wharf", env!("CARGO_PKG_VERSION")).title("Wharf"))
            .handler(handler)
            .stderr(Stderr::Null);
        let mut builder = self.shared.connection.apply(builder)?;
        if self.shared.trace || self.shared.stderr {
            let trace = MessageTrace::new(self.shared.trace, self.screen.clone());
            builder =
                builder.stderr(Stderr::Note).trace(move |what: TraceEvent<'_>| trace.record(what));
        }
        builder = match self.shared.era {
            Some(VersionChoice::Era(era)) => builder.era(era),
            Some(VersionChoice::Exact(version)) => builder.protocol_version(version),
            None => builder,
        };
        if let Some(timeout) = self.shared.timeout {
            // `--timeout` also applies to servers that are slow to start.
            let handshake = timeout.saturating_add(HANDSHAKE_MARGIN);
            builder =
                builder.timeout(timeout).total(timeout.max(TOTAL_TIMEOUT)).handshake(handshake);
        }
        if let Some(level) = self.shared.log_level {
            builder = builder.log_level(level);
        }
        Ok(match revision_cache_file() {
            Some(file) => builder.cache_revisions_in(file),
            None => builder,
        })
    }

    /// Makes a call and shows its progress.
    pub(crate) async fn watch<T: 'static>(
        &self,
        mut calling: CallBuilder<T>,
    ) -> Result<T, CliError> {
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
    pub(crate) fn timeout_error(&self) -> CliError {
        let limit = self.shared.timeout.unwrap_or_default();
        let message = format!("The command took longer than {limit:?}");
        CliError::of_kind(ErrorKind::RequestTimeout, message)
    }

    /// Closes all connections concurrently.
    pub(crate) async fn close(&self) {
        let clients = self.clients.get().cloned().unwrap_or_default();
        let closing = clients.into_iter().map(|client| async move { client.close().await });
        closing.collect::<JoinSet<()>>().join_all().await;
    }

    /// Writes a note to stderr, only at a terminal.
    pub(crate) fn note(&self, text: &str) {
        if self.screen.is_terminal() {
            let paint = self.screen.paint();
            self.screen.line(&paint.dim(&clean_line(text)));
        }
    }
}

/// Cache file of the protocol version of each server.
fn revision_cache_file() -> Option<PathBuf> {
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
