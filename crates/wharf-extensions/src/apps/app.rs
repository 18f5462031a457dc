//! Builder of apps.

use std::{path::PathBuf, sync::Arc};

use serde_json::{Map, Value, json};
use wharf_model::{CacheHint, Error, ErrorKind, ResourceContents};
use wharf_server::{Resource, RouterBuilder};

use crate::apps::{
    MIME_TYPE, PAGE_SCRIPT, check,
    csp::Csp,
    directory::{PageDirectory, watch},
    inline::{PAGE_SCRIPT_NAME, inline},
    openai,
};

/// Permission of the browser that a page requests from the host. Hosts may refuse it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AppPermission {
    /// Camera.
    Camera,
    /// Microphone.
    Microphone,
    /// Position of the user.
    Geolocation,
    /// Writing to the clipboard.
    ClipboardWrite,
}

impl AppPermission {
    fn name(self) -> &'static str {
        match self {
            AppPermission::Camera => "camera",
            AppPermission::Microphone => "microphone",
            AppPermission::Geolocation => "geolocation",
            AppPermission::ClipboardWrite => "clipboardWrite",
        }
    }
}

/// HTML page that hosts show for the tools that name it.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod server { pub use super::*; }
/// #     pub mod apps { pub use wharf_extensions::apps::*; } }
/// use wharf::{Tool, apps::{App, Csp, ToolAppExt as _}, server::Router};
///
/// let page = "<!doctype html><p id=sky></p><script type=module src=wharf-app.js></script>
///     <script type=module>
///         await wharf.connect({ name: 'weather', onResult: it => { sky.textContent = it.content[0].text } });
///     </script>";
/// let app = App::html("ui://weather", page)
///     .title("Weather")
///     .csp(Csp::new().connect("https://api.example.com"))
///     .border(true);
/// let router = app.add_to(Router::builder());
/// let router = router.add(Tool::new("weather", async || "sunny").app("ui://weather")).build()?;
/// # let _ = router;
/// # Ok::<(), wharf::server::BuildError>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct App {
    uri: String,
    page: AppPage,
    title: Option<String>,
    description: Option<String>,
    csp: Csp,
    permissions: Vec<AppPermission>,
    domain: Option<String>,
    border: Option<bool>,
    openai: bool,
    cache: Option<CacheHint>,
    watched: bool,
}

#[derive(Debug)]
enum AppPage {
    Html(String),
    Directory(PageDirectory),
}

impl App {
    /// Creates an app from its URI, such as `ui://weather`, and a complete HTML document. The script of the library takes
    /// the place of `<script type="module" src="wharf-app.js"></script>`; all other scripts and stylesheets are in the
    /// document, or come from an origin of the [`Csp`].
    pub fn html(uri: impl Into<String>, html: impl Into<String>) -> Self {
        App::new(uri.into(), AppPage::Html(html.into()))
    }

    /// Creates an app from its URI and a directory, for development. The file `index.html` is read for each request, and
    /// with it the scripts and stylesheets that it loads from relative URLs.
    ///
    /// ```no_run
    /// # mod wharf { pub mod apps { pub use wharf_extensions::apps::*; } }
    /// use wharf::apps::App;
    ///
    /// let app = App::dir("ui://weather", "./app").watch();
    /// # let _ = app;
    /// ```
    pub fn dir(uri: impl Into<String>, directory: impl Into<PathBuf>) -> Self {
        App::new(uri.into(), AppPage::Directory(PageDirectory(directory.into())))
    }

    fn new(uri: String, page: AppPage) -> Self {
        App {
            uri,
            page,
            title: None,
            description: None,
            csp: Csp::new(),
            permissions: Vec::new(),
            domain: None,
            border: None,
            openai: false,
            cache: None,
            watched: false,
        }
    }

    /// Sets the display name.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the description.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets the origins that the page may use. Without them, it has no network.
    pub fn csp(mut self, csp: Csp) -> Self {
        self.csp = csp;
        self
    }

    /// Sets the permissions that the page requests.
    pub fn permissions(mut self, permissions: impl IntoIterator<Item = AppPermission>) -> Self {
        self.permissions = permissions.into_iter().collect();
        self
    }

    /// Requests a dedicated origin for the page; the documentation of each host program has the form of `domain`.
    pub fn domain(mut self, domain: impl Into<String>) -> Self {
        self.domain = Some(domain.into());
        self
    }

    /// Requests a visible border and background, or none. Without it, the host decides.
    pub fn border(mut self, border: bool) -> Self {
        self.border = Some(border);
        self
    }

    /// Sets the time for which clients may cache the page.
    pub fn cache(mut self, hint: CacheHint) -> Self {
        self.cache = Some(hint);
        self
    }

    /// Adds the keys of ChatGPT (`openai/outputTemplate`, `openai/widgetCSP` and others) to the page and to its tools.
    pub fn openai(mut self) -> Self {
        self.openai = true;
        self
    }

    /// Notifies subscribers of the page when a file of its [directory](App::dir) changes.
    pub fn watch(mut self) -> Self {
        self.watched = true;
        self
    }

    /// Adds the app to a router.
    pub fn add_to(self, mut router: RouterBuilder) -> RouterBuilder {
        let (uri, meta) = (Arc::<str>::from(&*self.uri), self.meta());
        let item = format!("app `{uri}`");
        if uri.contains('{') {
            return router.problem(&item, "the URI of an app has no variables: remove `{…}`");
        }
        let contents = move |page: String| {
            let contents = ResourceContents::text(&*uri, page).mime_type(MIME_TYPE);
            meta.iter().fold(contents, |it, (key, value)| it.with_meta(*key, value.clone()))
        };
        let page = match &self.page {
            AppPage::Html(html) => inline(html, &library_only),
            AppPage::Directory(directory) => directory.read(),
        };
        let page = match page {
            Ok(page) => page,
            Err(problem) => {
                router = router.problem(&item, problem);
                String::new()
            }
        };
        let resource = match &self.page {
            AppPage::Html(_) => {
                let contents = contents(page);
                Resource::inline(&self.uri, move || contents.clone())
            }
            AppPage::Directory(directory) => {
                let directory = directory.clone();
                Resource::blocking(&self.uri, move || match directory.read() {
                    Ok(page) => Ok(contents(page)),
                    Err(problem) => {
                        tracing::error!("cannot read the page of an app: {problem}");
                        Err(Error::new(ErrorKind::InternalError))
                    }
                })
            }
        };
        if self.watched {
            router = self.watch_in(router, &item);
        }
        router.add(self.describe(resource))
    }

    fn watch_in(&self, router: RouterBuilder, item: &str) -> RouterBuilder {
        let AppPage::Directory(directory) = &self.page else {
            return router.problem(item, "only a directory can be watched: use `App::dir`");
        };
        let (directory, uri) = (directory.clone(), Arc::<str>::from(&*self.uri));
        router.on_build(move |registry| watch(directory, uri, registry.downgrade()))
    }

    /// Sets what clients receive of the resource besides its page.
    fn describe(self, resource: Resource) -> Resource {
        let meta = self.meta();
        let name = self.uri.strip_prefix("ui://").unwrap_or(&self.uri).to_owned();
        let mut resource = resource.name(name).mime(MIME_TYPE).extension(check::extension);
        if let Some(title) = self.title {
            resource = resource.title(title);
        }
        if let Some(description) = self.description {
            resource = resource.description(description);
        }
        if let Some(cache) = self.cache {
            resource = resource.cache(cache);
        }
        meta.into_iter().fold(resource, |it, (key, value)| it.meta(key, value))
    }

    /// Returns the `_meta` of the resource. Hosts read it in the list or in the contents, so both have it.
    fn meta(&self) -> Vec<(&'static str, Value)> {
        let mut ui = Map::new();
        let permissions = self.permissions.iter().map(|it| (it.name().to_owned(), json!({})));
        let permissions: Map<String, Value> = permissions.collect();
        let fields = [
            ("csp", self.csp.clone().into_json()),
            ("permissions", (!permissions.is_empty()).then_some(permissions.into())),
            ("domain", self.domain.clone().map(Value::from)),
            ("prefersBorder", self.border.map(Value::from)),
        ];
        ui.extend(fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        let mut meta = match self.openai {
            true => openai::page_keys(&ui, self.description.as_deref()),
            false => Vec::new(),
        };
        if !ui.is_empty() {
            meta.push(("ui", ui.into()));
        }
        meta
    }
}

/// Loads the script of the library, and no other file.
fn library_only(path: &str) -> Result<String, String> {
    match path {
        PAGE_SCRIPT_NAME => Ok(PAGE_SCRIPT.to_owned()),
        other => Err(format!(
            "its page loads {other:?} from a relative URL, which hosts cannot resolve: put the text into the page, or \
             serve the directory with `App::dir`"
        )),
    }
}
