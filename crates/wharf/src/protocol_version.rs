//! An opaque protocol version.

use std::{error::Error, fmt, str::FromStr};

use wharf_wire::Revision;

/// A server supports both eras at once, unless it is restricted to one:
///
/// ```
/// use wharf::{Era, Server};
///
/// let server = Server::new("harbour", "1.0.0").only(Era::Modern);
/// # let _ = server;
/// ```
pub use wharf_wire::Era;

/// One dated protocol version, identified only by its date.
///
/// Put it into the scope of [`Endpoint::handle`](crate::Endpoint::handle) to set the version of a
/// message without a handshake. Messages that carry their version do not need it.
///
/// ```
/// let version: wharf::ProtocolVersion = "2025-06-18".parse().unwrap();
/// assert_eq!(version.to_string(), "2025-06-18");
/// assert!("2025-06-19".parse::<wharf::ProtocolVersion>().is_err());
/// ```
///
/// The inner type is private, so code cannot depend on a specific version:
///
/// ```compile_fail
/// use wharf::Revision;
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ProtocolVersion(pub(crate) Revision);

impl ProtocolVersion {
    /// Era of the version.
    ///
    /// ```
    /// use wharf::{Era, ProtocolVersion};
    ///
    /// let version: ProtocolVersion = "2025-06-18".parse().unwrap();
    /// assert_eq!(version.era(), Era::Legacy);
    /// ```
    #[must_use]
    pub fn era(self) -> Era {
        self.0.era()
    }
}

impl FromStr for ProtocolVersion {
    type Err = UnknownRevision;

    fn from_str(date: &str) -> Result<Self, Self::Err> {
        date.parse().map(ProtocolVersion).map_err(|_| UnknownRevision(date.to_owned()))
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl fmt::Debug for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProtocolVersion({self})")
    }
}

/// Error for a date without a protocol version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownRevision(String);

impl fmt::Display for UnknownRevision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Revision::ALL.map(|revision| revision.as_str()).join(", ");
        write!(f, "no revision of the protocol is dated {:?}; there are {known}", self.0)
    }
}

impl Error for UnknownRevision {}
