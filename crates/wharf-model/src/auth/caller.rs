//! The caller that a server's resources are counted under.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use crate::{Principal, RequestExtensions};

/// Network address of the client, which transports put into the [`RequestExtensions`] of each request. Behind a
/// reverse proxy, insert the address that the proxy reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteAddress(pub SocketAddr);

/// The caller that a server's resources are counted under: the principal, or the network address where no
/// authentication took place.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
/// use wharf::{Principal, model::{Caller, RemoteAddress, RequestExtensions}};
///
/// let mut scope = RequestExtensions::new();
/// assert_eq!(Caller::of(&scope), Caller::Local);
/// scope.insert(RemoteAddress("192.0.2.7:5000".parse()?));
/// assert_eq!(Caller::of(&scope), Caller::Address("192.0.2.7".parse()?));
/// scope.insert(Principal::new("alice"));
/// assert_eq!(Caller::of(&scope), Caller::Principal("alice".into()));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
// Exhaustive: every match decides about a new variant.
pub enum Caller {
    /// An authenticated principal, by its identifier.
    Principal(Arc<str>),
    /// An address. Of an IPv6 address only the first 64 bits count: one machine has all the others.
    Address(IpAddr),
    /// A caller on this machine: standard input, a Unix socket, or code in the same process.
    Local,
}

impl Caller {
    /// Returns the caller of a request with these extensions.
    #[must_use]
    pub fn of(scope: &RequestExtensions) -> Self {
        match (scope.get::<Principal>(), scope.get::<RemoteAddress>()) {
            (Some(principal), _) => Caller::Principal(principal.shared_id()),
            (None, Some(address)) => Caller::from(address.0.ip()),
            (None, None) => Caller::Local,
        }
    }

    /// Returns the group of an unauthenticated caller's address, below `groups`; `None` for other callers.
    ///
    /// Stores that several processes share count unauthenticated callers by this group. An address is personal data, and
    /// its digest could be reversed by trying all addresses; a group has too many addresses for that.
    #[must_use]
    pub fn address_group(&self, groups: u16) -> Option<u16> {
        let Caller::Address(address) = self else { return None };
        // FNV-1a: all processes must compute the same number.
        let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        let start = 0xcbf2_9ce4_8422_2325;
        let hash = match address {
            IpAddr::V4(address) => address.octets().iter().fold(start, hash),
            IpAddr::V6(address) => address.octets().iter().fold(start, hash),
        };
        u16::try_from((hash ^ (hash >> 32)) % u64::from(groups.max(1))).ok()
    }
}

impl From<IpAddr> for Caller {
    fn from(address: IpAddr) -> Self {
        Caller::Address(match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = address.to_bits() >> 64 << 64;
                IpAddr::V6(Ipv6Addr::from_bits(network))
            }
            v4 => v4,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_ipv6_network_and_a_mapped_address_are_one_caller_each() {
        let caller = |address: &str| Caller::from(address.parse::<IpAddr>().unwrap());
        assert_eq!(caller("2001:db8::1"), caller("2001:db8::ffff:1"));
        assert_ne!(caller("2001:db8::1"), caller("2001:db8:0:1::1"));
        assert_eq!(caller("::ffff:192.0.2.1"), caller("192.0.2.1"));
    }

    #[test]
    fn addresses_are_spread_over_all_groups() {
        let group = |caller: Caller| caller.address_group(16);
        assert_eq!(group(Caller::Local), None);
        assert_eq!(group(Caller::Principal("ada".into())), None);
        let mut counts = [0; 16];
        for last in 0..=255 {
            let address = IpAddr::from([192, 0, 2, last]);
            counts[usize::from(group(address.into()).unwrap())] += 1;
        }
        assert!(counts.iter().all(|count| (4..=40).contains(count)), "{counts:?}");
    }
}
