//! Apps of a server.

use wharf_extensions::apps::App;

use crate::Server;

impl Server {
    /// Adds an [app](crate::apps): an HTML page that hosts show for the tools that name it.
    ///
    /// ```
    /// use wharf::{apps::App, prelude::*};
    ///
    /// /// Returns the weather of a city.
    /// #[tool(app = "ui://weather")]
    /// async fn weather(city: String) -> String {
    ///     format!("sunny in {city}")
    /// }
    ///
    /// let page = "<!doctype html><p>Weather</p>";
    /// let server = Server::new("weather", "1.0.0").tool::<weather>().app(App::html("ui://weather", page));
    /// assert!(server.build().is_ok());
    /// ```
    pub fn app(self, app: App) -> Self {
        self.routing(|router| app.add_to(router))
    }
}
