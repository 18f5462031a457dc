//! URI templates for the fuzz targets: through a router, each match would cost the building of a server.

use crate::{handler::string_args::StringArg, primitives::uri_template::UriTemplate};

/// Value of a variable: one text, or a list.
pub type Captured = Result<String, Vec<String>>;

/// Variables of a match.
pub type MatchedVariables = Vec<(String, Captured)>;

/// Parses `template` and matches each URI; an error if the template is invalid.
pub fn match_template(
    template: &str,
    uris: &[&str],
) -> Result<Vec<Option<MatchedVariables>>, String> {
    let template = UriTemplate::parse(template)?;
    let value = |value| match value {
        StringArg::Single(text) => Ok(text),
        StringArg::List(texts) => Err(texts),
    };
    let matches = |uri: &&str| {
        let captures = template.matches(uri)?.into_iter();
        Some(captures.map(|(name, captured)| (name.into_owned(), value(captured))).collect())
    };
    Ok(uris.iter().map(matches).collect())
}
