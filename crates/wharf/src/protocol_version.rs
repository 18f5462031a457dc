//! An opaque protocol version.

use std::{error::Error, fmt, str::FromStr};

use wharf_wire::Revision;

/// Eras of the protocol: before and after requests became self-contained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Era {
    /// Every request is self-contained: no handshake, no session.
    Modern,
    /// A connection begins with an `initialize` handshake.
    Legacy,
}

/// One dated protocol version, identified only by its date.
///
/// Put it into the scope of [`Endpoint::handle`](crate::Endpoint::handle) to set the version of a
/// message without a handshake. Messages that carry their version do not need it.
///
/// ```
/// let pin: wharf::ProtocolVersion = "2025-06-18".parse().unwrap();
/// assert_eq!(pin.to_string(), "2025-06-18");
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

#[cfg(feature = "client")]
impl ProtocolVersion {
    /// Newest protocol version of an era.
    pub(crate) fn newest(era: Era) -> Self {
        ProtocolVersion(match era {
            Era::Modern => Revision::MODERN,
            Era::Legacy => Revision::NEWEST_LEGACY,
        })
    }
}

impl ProtocolVersion {
    /// Era of the version.
    ///
    /// ```
    /// use wharf::{Era, ProtocolVersion};
    ///
    /// let pin: ProtocolVersion = "2025-06-18".parse().unwrap();
    /// assert_eq!(pin.era(), Era::Legacy);
    /// ```
    #[must_use]
    pub fn era(self) -> Era {
        if self.0.is_modern() { Era::Modern } else { Era::Legacy }
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
        write!(f, "Pin({self})")
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
