//! Parses `WWW-Authenticate` (RFC 9110): several challenges per header, several headers, quoted strings,
//! and schemes without parameters.

/// Limit of bytes that are parsed.
const MAX_HEADER_BYTES: usize = 16 << 10;
/// Limit of challenges, and of parameters per challenge.
const MAX_ITEMS: usize = 32;

/// One challenge of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Challenge {
    /// Authentication scheme: `Bearer`, `DPoP`.
    pub scheme: String,
    /// The token68 value, for schemes without parameters.
    pub token68: Option<String>,
    /// Parameters: names in lower case, values unquoted.
    pub params: Vec<(String, String)>,
}

impl Challenge {
    /// Parses one or more `WWW-Authenticate` headers. Malformed parts are skipped.
    ///
    /// ```
    /// use wharf_auth::client::Challenge;
    ///
    /// let said = r#"Negotiate, Bearer error="invalid_token", scope="a b""#;
    /// let challenges = Challenge::parse([said]);
    /// assert_eq!(challenges[0].scheme, "Negotiate");
    /// assert_eq!(challenges[1].get("scope"), Some("a b"));
    /// ```
    pub fn parse<'a>(headers: impl IntoIterator<Item = &'a str>) -> Vec<Challenge> {
        let mut found = Vec::new();
        let mut left = MAX_HEADER_BYTES;
        for header in headers {
            let mut end = header.len().min(left);
            while !header.is_char_boundary(end) {
                end -= 1;
            }
            left -= end;
            ChallengeParser { text: &header.as_bytes()[..end], at: 0 }.read(&mut found);
        }
        found
    }

    /// Value of the first parameter with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }

    fn is(&self, scheme: &str) -> bool {
        self.scheme.eq_ignore_ascii_case(scheme)
    }
}

/// Requirements of a 401 or 403 response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AuthRequirement {
    /// The server accepts Bearer tokens.
    pub(super) bearer: bool,
    /// The server accepts DPoP-bound tokens.
    pub(super) dpop: bool,
    pub(super) metadata: Option<String>,
    pub(super) scope: Option<Vec<String>>,
    pub(super) error: Option<String>,
}

impl AuthRequirement {
    pub(super) fn parse(headers: &[String]) -> AuthRequirement {
        let mut requirement = AuthRequirement::default();
        for challenge in Challenge::parse(headers.iter().map(String::as_str)) {
            match () {
                () if challenge.is("Bearer") => requirement.bearer = true,
                () if challenge.is("DPoP") => requirement.dpop = true,
                () => continue,
            }
            let get = |name: &str| challenge.get(name).map(str::to_owned);
            requirement.metadata = requirement.metadata.or_else(|| get("resource_metadata"));
            requirement.error = requirement.error.or_else(|| get("error"));
            let scope = challenge.get("scope").map(super::scope::parse);
            requirement.scope = requirement.scope.or(scope.filter(|it| !it.is_empty()));
        }
        requirement
    }

    pub(super) fn requires_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    pub(super) fn requires_nonce(&self) -> bool {
        self.error.as_deref() == Some("use_dpop_nonce")
    }
}

struct ChallengeParser<'a> {
    text: &'a [u8],
    at: usize,
}

impl ChallengeParser<'_> {
    fn read(&mut self, found: &mut Vec<Challenge>) {
        // Parameters belong to a scheme of the same header.
        let mut current: Option<usize> = None;
        loop {
            self.skip(|it| it == b',' || is_space(it));
            if self.at >= self.text.len() {
                return;
            }
            let name = self.take(is_token);
            if name.is_empty() {
                // Not a valid token: skip to the next comma.
                self.skip_to_comma();
                continue;
            }
            let spaces = self.take(is_space).len();
            if self.peek() == Some(b'=') {
                self.at += 1;
                let value = self.value();
                let challenge = current.and_then(|at| found.get_mut(at));
                if let Some(challenge) = challenge.filter(|it| it.params.len() < MAX_ITEMS) {
                    challenge.params.push((name.to_ascii_lowercase(), value));
                }
                continue;
            }
            if found.len() >= MAX_ITEMS {
                return;
            }
            let token68 = if spaces > 0 { self.token68() } else { None };
            found.push(Challenge { scheme: name, token68, params: Vec::new() });
            current = Some(found.len() - 1);
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip(&mut self, wanted: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&wanted) {
            self.at += 1;
        }
    }

    fn take(&mut self, wanted: impl Fn(u8) -> bool) -> String {
        let start = self.at;
        self.skip(wanted);
        String::from_utf8_lossy(&self.text[start..self.at]).into_owned()
    }

    fn skip_to_comma(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b',' => return,
                b'"' => drop(self.quoted()),
                _ => self.at += 1,
            }
        }
    }

    fn value(&mut self) -> String {
        self.skip(is_space);
        if self.peek() == Some(b'"') { self.quoted() } else { self.take(is_unquoted) }
    }

    /// Parses a quoted string; an unterminated one ends with the header.
    fn quoted(&mut self) -> String {
        let mut value = Vec::new();
        self.at += 1;
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'"' => break,
                b'\\' => {
                    value.extend(self.peek());
                    self.at += 1;
                }
                byte => value.push(byte),
            }
        }
        self.at = self.at.min(self.text.len());
        String::from_utf8_lossy(&value).into_owned()
    }

    /// Parses a token68 value, which must be the whole challenge.
    fn token68(&mut self) -> Option<String> {
        let start = self.at;
        let mut value = self.take(is_token68);
        if !value.is_empty() {
            value.push_str(&self.take(|it| it == b'='));
            self.skip(is_space);
            if self.peek().is_none_or(|it| it == b',') {
                return Some(value);
            }
        }
        self.at = start;
        None
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// More than RFC 9110 allows: many servers omit the quotes around URLs.
fn is_unquoted(byte: u8) -> bool {
    byte.is_ascii_graphic() && byte != b',' && byte != b'"'
}

fn is_token68(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte)
}
