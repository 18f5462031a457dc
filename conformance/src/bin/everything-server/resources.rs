//! Resources.

use wharf::prelude::*;

use crate::media;

pub(crate) fn resources(server: Server) -> Server {
    server
        .resource::<static_text>()
        .resource::<static_binary>()
        .resource::<watched_resource>()
        .resource::<template>()
}

/// A static text.
#[resource("test://static-text", mime = "text/plain")]
async fn static_text() -> &'static str {
    "This is the content of the static text resource."
}

/// A static image.
#[resource("test://static-binary", mime = "image/png")]
async fn static_binary() -> &'static [u8] {
    media::PNG
}

/// A resource to subscribe to, for legacy scenarios.
#[resource("test://watched-resource", mime = "text/plain")]
async fn watched_resource() -> &'static str {
    "This resource is being watched."
}

/// A resource template.
#[resource("test://template/{id}/data", mime = "application/json")]
async fn template(id: String) -> Json<TemplateData> {
    Json(TemplateData { data: format!("Data for ID: {id}"), template_test: true, id })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TemplateData {
    id: String,
    template_test: bool,
    data: String,
}
