//! Builder of `WWW-Authenticate` challenges (RFC 6750, RFC 9449, RFC 9728).

use http::HeaderValue;

/// Never part of a challenge: it asks for refresh tokens, which is the client's decision.
const OFFLINE_ACCESS: &str = "offline_access";

/// A challenge under construction.
#[derive(Debug)]
pub(crate) struct ChallengeBuilder {
    text: String,
    parameters: usize,
}

impl ChallengeBuilder {
    pub(crate) fn new(scheme: &str) -> Self {
        ChallengeBuilder { text: scheme.to_owned(), parameters: 0 }
    }

    /// Adds a parameter. Characters that are not allowed in a quoted string are replaced.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.text.push_str(if self.parameters == 0 { " " } else { ", " });
        self.parameters += 1;
        self.text.push_str(name);
        self.text.push_str("=\"");
        self.text.extend(value.chars().map(|it| match it {
            '"' | '\\' => '\'',
            ' '..='~' => it,
            _ => '?',
        }));
        self.text.push('"');
        self
    }

    /// Adds a parameter if it has a value.
    pub(crate) fn with_optional(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Adds the scopes without duplicates, if there are any.
    pub(crate) fn scopes<'a>(self, scopes: impl IntoIterator<Item = &'a str>) -> Self {
        let mut all: Vec<&str> = Vec::new();
        for scope in scopes {
            let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
            let fits = !scope.is_empty() && scope.bytes().all(is_plain) && scope != OFFLINE_ACCESS;
            if fits && !all.contains(&scope) {
                all.push(scope);
            }
        }
        if all.is_empty() { self } else { self.with("scope", &all.join(" ")) }
    }

    pub(crate) fn header(self) -> HeaderValue {
        // The text is visible ASCII: other characters were replaced.
        HeaderValue::try_from(self.text).unwrap_or_else(|_| HeaderValue::from_static("Bearer"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_is_safe() {
        let challenge = ChallengeBuilder::new("Bearer")
            .with("error_description", "a \"b\" \\ c\r\nX: y é")
            .scopes(["files:read", "", "a b", "a\"b", "files:read", "offline_access", "x"])
            .with_optional("none", None);
        assert_eq!(
            challenge.header(),
            r#"Bearer error_description="a 'b' ' c??X: y ?", scope="files:read x""#
        );
        assert_eq!(ChallengeBuilder::new("Bearer").scopes([]).header(), "Bearer");
    }
}
