//! URIs of skills and of their files.

use std::{fmt, hash};

use wharf_model::excerpt;

use super::SKILL_FILE;

/// Maximum length of a URI, that of `CallLimits::uri`: longer ones are refused before they are parsed.
const MAX_URI_BYTES: usize = 8 * 1024;

/// URI of a file or a directory below some scheme. Two spellings of one path are equal: percent-encoded segments are decoded
/// for comparisons, and the spelling is kept.
///
/// ```
/// # mod wharf { pub use wharf_extensions::*; }
/// use wharf::skills::FileUri;
///
/// let one = FileUri::parse("skill://refunds/examples/e-mail.md")?;
/// assert_eq!(one, FileUri::parse("skill://refunds/examples/e%2Dmail.md")?);
/// assert!(FileUri::parse("skill://refunds/%2e%2e/secret").is_err());
/// # Ok::<(), wharf::skills::SkillUriError>(())
/// ```
#[derive(Clone, Debug)]
pub struct FileUri {
    text: String,
    scheme: String,
    /// Decoded segments, separated by slashes: no decoded segment has one.
    path: String,
}

/// URI of the `SKILL.md` of a skill, such as `skill://acme/refunds/SKILL.md`.
///
/// ```
/// # mod wharf { pub use wharf_extensions::*; }
/// use wharf::skills::{FileUri, SkillUri};
///
/// let skill = SkillUri::parse("skill://acme/refunds/SKILL.md")?;
/// assert_eq!((skill.name(), skill.root()), ("refunds", "skill://acme/refunds"));
/// assert_eq!(skill.file("examples/a b.md")?.as_str(), "skill://acme/refunds/examples/a%20b.md");
/// assert_eq!(skill.relative(&FileUri::parse("skill://acme/refunds/x.md")?).as_deref(), Some("x.md"));
/// assert_eq!(skill.relative(&FileUri::parse("skill://acme/other/x.md")?), None);
/// # Ok::<(), wharf::skills::SkillUriError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SkillUri(FileUri);

/// Error of reading a URI of a skill or of a file of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillUriError {
    uri: String,
    text: String,
}

impl FileUri {
    /// Reads a URI with an authority and without query and fragment.
    ///
    /// # Errors
    /// If it is not one, if it has more than 8 KiB, or if a decoded segment is empty, `.` or `..`, has a slash, a backslash
    /// or a NUL, or is not UTF-8.
    pub fn parse(uri: &str) -> Result<Self, SkillUriError> {
        let fail = |text: String| SkillUriError::new(uri, text);
        if uri.len() > MAX_URI_BYTES {
            let text = format!("it has {} bytes; {MAX_URI_BYTES} is the limit", uri.len());
            return Err(fail(text));
        }
        let (scheme, path) = uri
            .split_once("://")
            .ok_or_else(|| fail("it has no scheme: it begins like `skill://`".to_owned()))?;
        let mut letters = scheme.bytes();
        let starts_well = letters.next().is_some_and(|first| first.is_ascii_alphabetic());
        if !starts_well || !letters.all(|it| it.is_ascii_alphanumeric() || b"+-.".contains(&it)) {
            return Err(fail(format!("`{}` is not a scheme", excerpt(scheme))));
        }
        if path.contains(['?', '#']) {
            return Err(fail("it has a query or a fragment".to_owned()));
        }
        let mut decoded = String::with_capacity(path.len());
        for segment in path.split('/') {
            if !decoded.is_empty() {
                decoded.push('/');
            }
            decoded.push_str(&decode_segment(segment).map_err(fail)?);
        }
        Ok(FileUri { text: uri.to_owned(), scheme: scheme.to_ascii_lowercase(), path: decoded })
    }

    /// Builds a URI from a scheme and decoded segments.
    ///
    /// # Errors
    /// If a segment cannot be one.
    pub fn from_segments<'a>(
        scheme: &str,
        segments: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, SkillUriError> {
        let encoded: Vec<String> = segments.into_iter().map(encode_segment).collect();
        FileUri::parse(&format!("{scheme}://{}", encoded.join("/")))
    }

    /// Returns the URI as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the scheme in lower case.
    #[must_use]
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Returns whether the authority is a registered name (`reg-name` of RFC 3986).
    #[must_use]
    pub fn has_registered_name(&self) -> bool {
        let authority = self.text[self.scheme.len() + "://".len()..].split('/').next();
        authority.is_some_and(|it| it.bytes().all(|byte| is_plain(byte) || byte == b'%'))
    }

    /// Returns the decoded segments; the first is the authority.
    #[must_use]
    pub fn segments(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.path.split('/')
    }
}

impl SkillUri {
    /// Reads the URI of a `SKILL.md`.
    ///
    /// # Errors
    /// If it is not a URI of a file `SKILL.md` in a directory.
    pub fn parse(uri: &str) -> Result<Self, SkillUriError> {
        let file = FileUri::parse(uri)?;
        let is_spelled_out = uri.ends_with(&format!("/{SKILL_FILE}"));
        if !file.path.contains('/') || !is_spelled_out {
            let text = format!("it is not the URI of a skill: it ends in `/NAME/{SKILL_FILE}`");
            return Err(SkillUriError::new(uri, text));
        }
        Ok(SkillUri(file))
    }

    /// Builds the URI of the skill at a decoded path below a scheme.
    ///
    /// # Errors
    /// If a segment of the path cannot be one.
    pub fn from_path<'a>(
        scheme: &str,
        path: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, SkillUriError> {
        let segments = path.into_iter().chain([SKILL_FILE]);
        SkillUri::parse(FileUri::from_segments(scheme, segments)?.as_str())
    }

    /// Returns the URI as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// Returns the URI of `SKILL.md` as the URI of a file.
    #[must_use]
    pub fn as_file(&self) -> &FileUri {
        &self.0
    }

    /// Returns the URI of the skill's directory, without a slash at its end.
    #[must_use]
    pub fn root(&self) -> &str {
        &self.0.text[..self.0.text.len() - SKILL_FILE.len() - 1]
    }

    /// Returns the name of the skill: the last segment of its path.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path().rsplit('/').next().unwrap_or_default()
    }

    /// Returns the decoded path of the skill's directory; its last segment is the name of the skill.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0.path[..self.0.path.len() - SKILL_FILE.len() - 1]
    }

    /// Returns the URI of a file of the skill, from its path below the skill's directory.
    ///
    /// # Errors
    /// If a segment of the path cannot be one: `..` and an absolute path are rejected.
    pub fn file(&self, relative: &str) -> Result<FileUri, SkillUriError> {
        let encoded: Vec<String> = relative.split('/').map(encode_segment).collect();
        FileUri::parse(&format!("{}/{}", self.root(), encoded.join("/")))
    }

    /// Returns the decoded path of a file below the skill's directory, or `None` for a file outside of it.
    #[must_use]
    pub fn relative(&self, file: &FileUri) -> Option<String> {
        let inside = file.path.strip_prefix(self.path())?.strip_prefix('/')?;
        (file.scheme == self.0.scheme).then(|| inside.to_owned())
    }
}

impl PartialEq for FileUri {
    fn eq(&self, other: &Self) -> bool {
        (&self.scheme, &self.path) == (&other.scheme, &other.path)
    }
}

impl Eq for FileUri {}

impl hash::Hash for FileUri {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        (&self.scheme, &self.path).hash(state);
    }
}

impl PartialOrd for FileUri {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for FileUri {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (&self.scheme, &self.path).cmp(&(&other.scheme, &other.path))
    }
}

impl SkillUriError {
    fn new(uri: &str, text: String) -> Self {
        SkillUriError { uri: excerpt(uri).into_owned(), text }
    }
}

impl fmt::Display for FileUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for SkillUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for SkillUriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the URI `{}` is not accepted: {}", self.uri.escape_debug(), self.text)
    }
}

impl std::error::Error for SkillUriError {}

/// Returns whether a byte of a segment needs no encoding (RFC 3986, `unreserved` and `sub-delims`).
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte)
}

/// Percent-encodes a segment.
fn encode_segment(segment: &str) -> String {
    let mut encoded = String::with_capacity(segment.len());
    for byte in segment.bytes() {
        if is_plain(byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

fn decode_segment(segment: &str) -> Result<String, String> {
    let shown = excerpt(segment);
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        let byte = match (*first, after) {
            (b'%', [high, low, after @ ..]) => {
                rest = after;
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let value = digit(*high).zip(digit(*low)).map(|(high, low)| (high << 4) | low);
                value.and_then(|it| u8::try_from(it).ok())
            }
            (b'%', _) => None,
            (byte, _) => Some(byte),
        };
        bytes.push(byte.ok_or_else(|| format!("`{shown}` has a `%` without two digits"))?);
    }
    let text = String::from_utf8(bytes).map_err(|_| format!("`{shown}` is not UTF-8"))?;
    if text.is_empty() {
        return Err("a segment of its path is empty".to_owned());
    }
    if matches!(text.as_str(), "." | "..") || text.contains(['/', '\\', '\0']) {
        return Err(format!("`{shown}` leaves its directory"));
    }
    Ok(text)
}
