//! Rewriting of resource URIs, if several upstream servers have resources: `PREFIX+scheme:rest`.

use std::sync::Arc;

use wharf_model::{Content, Outcome, Reply};

/// Makes the prefix of a server's URIs. The result is the beginning of a URI scheme: it starts with a letter, and has
/// no `_`.
pub(crate) fn uri_prefix(prefix: &str) -> String {
    let legal = prefix.to_ascii_lowercase().replace('_', "-");
    match legal.starts_with(|c: char| c.is_ascii_alphabetic()) {
        true => legal,
        false => format!("u{legal}"),
    }
}

/// URIs of one upstream server.
#[derive(Clone, Debug)]
pub(crate) struct UriRewrite {
    /// None if URIs stay the same.
    pub(crate) prefix: Option<Arc<str>>,
}

impl UriRewrite {
    pub(crate) fn public(&self, uri: &str) -> String {
        match &self.prefix {
            Some(prefix) => format!("{prefix}+{uri}"),
            None => uri.to_owned(),
        }
    }

    fn edit(&self, uri: &mut String) {
        *uri = self.public(uri);
    }

    /// Rewrites the URIs in a result: links, embedded resources, and contents that were read.
    pub(crate) fn outcome(&self, mut outcome: Outcome) -> Outcome {
        if self.prefix.is_none() {
            return outcome;
        }
        match &mut outcome {
            Outcome::Complete(Reply::Tool(result)) => {
                result.content.iter_mut().for_each(|it| self.content(it));
            }
            Outcome::Complete(Reply::Prompt(result)) => {
                result.messages.iter_mut().for_each(|it| self.content(&mut it.content));
            }
            Outcome::Complete(Reply::Read(result)) => {
                result.contents.iter_mut().for_each(|it| self.edit(&mut it.uri));
            }
            _ => {}
        }
        outcome
    }

    fn content(&self, content: &mut Content) {
        match content {
            Content::Link(link) => self.edit(&mut link.uri),
            Content::Resource(embedded) => self.edit(&mut embedded.resource.uri),
            _ => {}
        }
    }
}

/// Removes the prefix of a server from a public URI. Schemes have no case.
pub(crate) fn without_prefix<'a>(uri: &'a str, prefix: &str) -> Option<&'a str> {
    let (head, rest) = uri.split_at_checked(prefix.len())?;
    let rest = rest.strip_prefix('+')?;
    head.eq_ignore_ascii_case(prefix).then_some(rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_prefix_is_the_beginning_of_a_scheme() {
        assert_eq!(uri_prefix("my_Files"), "my-files");
        assert_eq!(uri_prefix("7zip"), "u7zip");
    }

    proptest! {
        #[test]
        fn every_uri_comes_back(prefix in "[a-zA-Z0-9_-]{1,12}", uri in any::<String>()) {
            let prefix = uri_prefix(&prefix);
            let rewrite = UriRewrite { prefix: Some(prefix.as_str().into()) };
            let public = rewrite.public(&uri);
            prop_assert_eq!(without_prefix(&public, &prefix), Some(uri.as_str()));
            prop_assert_eq!(without_prefix(&public, &format!("{prefix}x")), None);
        }
    }
}
