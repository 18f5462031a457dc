//! A revision that nobody need name.

use std::{error::Error, fmt, str::FromStr};

use wharf_wire::Revision;

/// One dated revision of the protocol, known only by its date.
///
/// Put it into the scope of [`Endpoint::handle`](crate::Endpoint::handle) to say which revision a
/// message without a handshake is written in. Messages that say it themselves need none.
///
/// ```
/// let pin: wharf::ProtocolVersion = "2025-06-18".parse().unwrap();
/// assert_eq!(pin.to_string(), "2025-06-18");
/// assert!("2025-06-19".parse::<wharf::ProtocolVersion>().is_err());
/// ```
///
/// What a revision is stays inside: code that has to know one cannot be written.
///
/// ```compile_fail
/// use wharf::Revision;
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ProtocolVersion(pub(crate) Revision);

#[cfg(feature = "client")]
impl ProtocolVersion {
    /// The newest revision of an era.
    pub(crate) fn newest(era: crate::Era) -> Self {
        ProtocolVersion(match era {
            crate::Era::Modern => Revision::MODERN,
            crate::Era::Legacy => Revision::NEWEST_LEGACY,
        })
    }
}

impl ProtocolVersion {
    /// The era it belongs to.
    ///
    /// ```
    /// use wharf::{Era, ProtocolVersion};
    ///
    /// let pin: ProtocolVersion = "2025-06-18".parse().unwrap();
    /// assert_eq!(pin.era(), Era::Legacy);
    /// ```
    #[must_use]
    pub fn era(self) -> crate::Era {
        if self.0.is_modern() { crate::Era::Modern } else { crate::Era::Legacy }
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

/// No revision of the protocol has this date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownRevision(String);

impl fmt::Display for UnknownRevision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Revision::ALL.map(|revision| revision.as_str()).join(", ");
        write!(f, "no revision of the protocol is dated {:?}; there are {known}", self.0)
    }
}

impl Error for UnknownRevision {}
