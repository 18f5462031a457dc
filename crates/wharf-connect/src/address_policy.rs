//! Address policy: the addresses that a connection may lead to (SSRF protection).

use std::net::SocketAddr;

use crate::{
    AddressClass, ConnectionError, Origin, address_class, error::ConnectionErrorKind::Forbidden,
};

/// Addresses that a connection may lead to.
///
/// One address that is not allowed rejects the whole name: genuine names do not mix public and private
/// addresses. The connection goes to an address that was checked, so a second answer of the name server
/// changes nothing (DNS rebinding).
///
/// ```
/// use wharf_connect::{AddressPolicy, Origin};
///
/// let near = Origin::parse("http://localhost:8000")?;
/// let loopback = "127.0.0.1:8000".parse()?;
/// assert!(!AddressPolicy::PUBLIC.allows(&near, &loopback));
/// assert!(AddressPolicy::PUBLIC.loopback(true).allows(&near, &loopback));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressPolicy {
    unrestricted: bool,
    loopback: bool,
    private: bool,
}

impl AddressPolicy {
    /// Every address: for a host that the user named.
    pub const ANY: AddressPolicy =
        AddressPolicy { unrestricted: true, loopback: true, private: true };
    /// Public addresses only: for a host that a remote party named.
    pub const PUBLIC: AddressPolicy =
        AddressPolicy { unrestricted: false, loopback: false, private: false };

    /// Allows or rejects loopback. It is allowed where the URL names it literally (`localhost`, `127.0.0.1`),
    /// or for any name if private addresses are allowed as well.
    #[must_use]
    pub fn loopback(self, allowed: bool) -> AddressPolicy {
        AddressPolicy { loopback: allowed, ..self }
    }

    /// Allows or rejects private addresses.
    #[must_use]
    pub fn private(self, allowed: bool) -> AddressPolicy {
        AddressPolicy { private: allowed, ..self }
    }

    /// Returns whether private addresses are allowed.
    pub fn allows_private(&self) -> bool {
        self.private
    }

    /// Returns whether every address is allowed, which needs no check.
    pub(crate) fn is_unrestricted(&self) -> bool {
        self.unrestricted
    }

    /// Returns whether a connection to `origin` may go to this address.
    pub fn allows(&self, origin: &Origin, address: &SocketAddr) -> bool {
        self.unrestricted
            || match address_class(address.ip()) {
                AddressClass::Public => true,
                AddressClass::Loopback => self.loopback && (self.private || origin.is_loopback()),
                AddressClass::Private => self.private,
                AddressClass::Reserved => false,
            }
    }

    /// Fails unless all addresses are allowed.
    pub(crate) fn check(
        &self,
        origin: &Origin,
        addresses: &[SocketAddr],
    ) -> Result<(), ConnectionError> {
        let Some(address) = addresses.iter().find(|it| !self.allows(origin, it)) else {
            return Ok(());
        };
        let what = match address_class(address.ip()) {
            AddressClass::Loopback => "this machine",
            AddressClass::Private => "a private network",
            _ => "a reserved address",
        };
        Err(ConnectionError::new(
            Forbidden,
            format!(
                "{origin} was not requested: it leads to {what} ({}), which SSRF protection rejects; allow private addresses only for hosts that you trust",
                address.ip()
            ),
        ))
    }
}
