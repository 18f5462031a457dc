//! Page of an app in a directory, for development.

use std::{fs, path::PathBuf, sync::Arc, thread, time::Duration};

use wharf_server::{WeakRegistry, safe_join};

use crate::apps::{
    PAGE_SCRIPT,
    inline::{PAGE_SCRIPT_NAME, inline},
};

/// Time between two readings of a watched page.
const WATCH_INTERVAL: Duration = Duration::from_millis(300);

/// Directory with `index.html`, and the scripts and stylesheets that it loads from relative URLs.
#[derive(Clone, Debug)]
pub(crate) struct PageDirectory(pub(crate) PathBuf);

impl PageDirectory {
    /// Reads the page, with its scripts and stylesheets; the error has the path and the cause.
    pub(crate) fn read(&self) -> Result<String, String> {
        if !self.0.is_dir() {
            let path = self.0.display();
            return Err(format!(
                "its directory {path} does not exist, seen from the directory of the process"
            ));
        }
        let page = self.file("index.html")?;
        inline(&page, &|path| match path {
            PAGE_SCRIPT_NAME => Ok(PAGE_SCRIPT.to_owned()),
            path => self.file(path),
        })
    }

    fn file(&self, path: &str) -> Result<String, String> {
        let full = safe_join(&self.0, path).map_err(|error| {
            format!("its page loads {path:?}, which is not a path below its directory: {error}")
        })?;
        fs::read_to_string(&full)
            .map_err(|error| format!("its file {} cannot be read: {error}", full.display()))
    }
}

/// Notifies the subscribers of `uri` whenever the page changes, in a thread that ends with the server.
pub(crate) fn watch(page: PageDirectory, uri: Arc<str>, registry: WeakRegistry) {
    let mut last = page.read();
    let thread = thread::Builder::new().name("wharf-app-watch".to_owned());
    let watching = uri.clone();
    let watcher = thread.spawn(move || {
        loop {
            thread::sleep(WATCH_INTERVAL);
            let Some(registry) = registry.upgrade() else { return };
            let now = page.read();
            if now != last {
                if let Err(problem) = &now {
                    tracing::warn!(app = &*uri, "cannot read the page of an app: {problem}");
                }
                registry.resource_updated(uri.clone());
                last = now;
            }
        }
    });
    if let Err(error) = watcher {
        tracing::warn!(app = &*watching, %error, "cannot watch the page of an app");
    }
}
