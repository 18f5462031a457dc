//! Client address behind reverse proxies: `Forwarded` and `X-Forwarded-For` of trusted proxies.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

use http::HeaderMap;
use wharf_model::{RemoteAddress, RequestExtensions, excerpt};

/// A block of network addresses: one address, or a network in CIDR notation.
///
/// ```
/// # mod wharf { pub use wharf_transport::server::http::*; pub mod http { pub use super::*; } }
/// use wharf::http::Network;
///
/// let network: Network = "10.0.0.0/8".parse()?;
/// assert!(network.contains("10.1.2.3".parse().unwrap()));
/// assert!(!network.contains("192.0.2.1".parse().unwrap()));
/// # Ok::<(), wharf::http::InvalidNetwork>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u32,
}

impl Network {
    /// Returns true if the block contains the address. An IPv4-mapped IPv6 address counts as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differing = own.to_bits() ^ other.to_bits();
                differing.checked_shr(32 - self.prefix).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differing = own.to_bits() ^ other.to_bits();
                differing.checked_shr(128 - self.prefix).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        let address = address.to_canonical();
        Network { address, prefix: if address.is_ipv4() { 32 } else { 128 } }
    }
}

impl FromStr for Network {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        let invalid = || InvalidNetwork(excerpt(text).into_owned());
        let Some((address, prefix)) = text.split_once('/') else {
            return text.parse::<IpAddr>().map(Network::from).map_err(|_| invalid());
        };
        // Not canonical, because the prefix length counts the bits of the address as written.
        let address: IpAddr = address.parse().map_err(|_| invalid())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.parse().ok().filter(|prefix| *prefix <= most).ok_or_else(invalid)?;
        Ok(Network { address, prefix })
    }
}

/// Error: not an address or a network in CIDR notation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidNetwork(String);

impl fmt::Display for InvalidNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not an address or network, such as 10.0.0.7, 10.0.0.0/8 or fd00::/8",
            self.0
        )
    }
}

impl std::error::Error for InvalidNetwork {}

/// Error: the two headers name different clients, so one of them may be forged.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ForwardedMismatch;

/// Reverse proxies whose headers about the client's address are trusted.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrustedProxies(Vec<Network>);

impl TrustedProxies {
    pub(crate) fn extend(&mut self, networks: impl IntoIterator<Item = Network>) {
        self.0.extend(networks);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn trusts(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }

    /// Replaces the proxy's address by the client's, if the request came from a trusted proxy.
    pub(crate) fn set_client_address(
        &self,
        headers: &HeaderMap,
        scope: &mut RequestExtensions,
    ) -> Result<(), ForwardedMismatch> {
        let Some(RemoteAddress(peer)) = scope.get().copied() else { return Ok(()) };
        if !self.trusts(peer.ip()) {
            return Ok(());
        }
        let forwarded =
            list(headers, "forwarded").map(|hops| self.client(peer, hops, forwarded_for));
        let plain = list(headers, "x-forwarded-for").map(|hops| self.client(peer, hops, address));
        let client = match (forwarded, plain) {
            (Some(one), Some(other)) if one.ip() != other.ip() => return Err(ForwardedMismatch),
            (Some(client), _) | (None, Some(client)) => client,
            (None, None) => return Ok(()),
        };
        scope.insert(RemoteAddress(client));
        Ok(())
    }

    /// Returns the right-most address that is not a trusted proxy; what is left of it is the client's own
    /// claim. If a proxy omits the address of its peer, the proxy counts as the client.
    fn client(
        &self,
        peer: SocketAddr,
        hops: Vec<&str>,
        read: impl Fn(&str) -> Option<SocketAddr>,
    ) -> SocketAddr {
        let mut known = peer;
        for hop in hops.into_iter().rev() {
            match read(hop) {
                Some(address) if self.trusts(address.ip()) => known = address,
                Some(address) => return address,
                None => return known,
            }
        }
        known
    }
}

/// Returns the elements of a list header, from all its lines. None if there is no such header. A line that is
/// not text counts as one element without an address.
fn list<'a>(headers: &'a HeaderMap, name: &str) -> Option<Vec<&'a str>> {
    let mut lines = headers.get_all(name).into_iter().peekable();
    lines.peek()?;
    let lines = lines.map(|line| line.to_str().unwrap_or_default());
    Some(lines.flat_map(|line| split(line, ',')).map(str::trim).collect())
}

/// Splits at separators outside of quotes.
fn split(text: &str, mark: char) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    text.split(move |it: char| {
        let literal = std::mem::take(&mut escaped);
        match it {
            _ if literal => {}
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ => return it == mark && !quoted,
        }
        false
    })
}

/// Parses the address in one element of `Forwarded` (RFC 7239), such as `for="[2001:db8::1]:4711";proto=https`.
fn forwarded_for(element: &str) -> Option<SocketAddr> {
    let named = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        name.trim().eq_ignore_ascii_case("for").then(|| value.trim().to_owned())
    };
    let value = split(element, ';').find_map(named)?;
    address(value.strip_prefix('"').and_then(|it| it.strip_suffix('"')).unwrap_or(&value))
}

/// Parses an address with or without a port or brackets.
fn address(text: &str) -> Option<SocketAddr> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(SocketAddr::new(address.ip().to_canonical(), address.port()));
    }
    let bare = text.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().map(|ip: IpAddr| SocketAddr::new(ip.to_canonical(), 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located(
        trusted: &[&str],
        peer: &str,
        lines: &[(&'static str, &str)],
    ) -> Result<String, ForwardedMismatch> {
        let mut proxies = TrustedProxies::default();
        proxies.extend(trusted.iter().map(|it| it.parse().unwrap()));
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        let mut scope = RequestExtensions::new();
        scope.insert(RemoteAddress(SocketAddr::new(peer.parse().unwrap(), 1)));
        proxies.set_client_address(&headers, &mut scope)?;
        Ok(scope.get::<RemoteAddress>().unwrap().0.ip().to_string())
    }

    #[test]
    fn a_network_holds_its_own_addresses_only() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("10.0.0.7", "10.0.0.7", "10.0.0.8"),
            ("10.0.0.7", "::ffff:10.0.0.7", "::10.0.0.7"),
            ("0.0.0.0/0", "203.0.113.9", "::1"),
            ("fd00::/8", "fdff::1", "fe00::1"),
            ("::/0", "2001:db8::1", "10.0.0.1"),
            ("::1", "::1", "127.0.0.1"),
            ("192.168.1.128/25", "192.168.1.129", "192.168.1.127"),
        ] {
            let network: Network = network.parse().unwrap();
            assert!(network.contains(inside.parse().unwrap()), "{network:?} {inside}");
            assert!(!network.contains(outside.parse().unwrap()), "{network:?} {outside}");
        }
        for text in
            ["", "10.0.0.0/33", "10.0.0/8", "::/129", "localhost", "10.0.0.0/-1", "10.0.0.0/"]
        {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_right_most_address_that_is_no_proxy_is_the_client() {
        const OURS: &[&str] = &["10.0.0.0/8", "::1"];
        let plain = |value| [("x-forwarded-for", value)];
        let standard = |value| [("forwarded", value)];
        for (lines, client) in [
            (&[][..], "10.0.0.1"),
            (&plain("192.0.2.1"), "192.0.2.1"),
            (&plain("6.6.6.6, 192.0.2.1"), "192.0.2.1"),
            (&plain("6.6.6.6, 192.0.2.1, 10.9.9.9"), "192.0.2.1"),
            (&plain("192.0.2.1:4711"), "192.0.2.1"),
            (&plain("2001:db8::1"), "2001:db8::1"),
            (&plain("[2001:db8::1]:4711"), "2001:db8::1"),
            (&plain("::ffff:192.0.2.1"), "192.0.2.1"),
            // Only proxies: the outermost one.
            (&plain("10.3.3.3, 10.2.2.2"), "10.3.3.3"),
            // An element without an address ends the search.
            (&plain("6.6.6.6, unknown"), "10.0.0.1"),
            (&plain("6.6.6.6, unknown, 10.2.2.2"), "10.2.2.2"),
            (&plain(""), "10.0.0.1"),
            (&plain("6.6.6.6,"), "10.0.0.1"),
            (&standard("for=192.0.2.1;proto=https;by=10.0.0.1"), "192.0.2.1"),
            (&standard(r#"for=6.6.6.6, For="[2001:db8::1]:4711""#), "2001:db8::1"),
            (&standard(r#"for=192.0.2.1;host="a,for=6.6.6.6", for=10.2.2.2"#), "192.0.2.1"),
            (&standard(r#"for=192.0.2.1;host="a\",for=6.6.6.6""#), "192.0.2.1"),
            (&standard("for=6.6.6.6, for=_hidden"), "10.0.0.1"),
            (&standard("for=6.6.6.6, proto=https"), "10.0.0.1"),
            (&[("x-forwarded-for", "6.6.6.6"), ("x-forwarded-for", "192.0.2.1")], "192.0.2.1"),
            (&[("forwarded", "for=192.0.2.1"), ("x-forwarded-for", "192.0.2.1")], "192.0.2.1"),
        ] {
            assert_eq!(located(OURS, "10.0.0.1", lines).as_deref(), Ok(client), "{lines:?}");
            assert_eq!(located(&[], "10.0.0.1", lines).as_deref(), Ok("10.0.0.1"), "{lines:?}");
            assert_eq!(located(OURS, "192.0.2.9", lines).as_deref(), Ok("192.0.2.9"), "{lines:?}");
        }
        // A proxy that sets one header passes on the client's own in the other.
        let forged = [("forwarded", "for=6.6.6.6"), ("x-forwarded-for", "192.0.2.1")];
        assert_eq!(located(OURS, "10.0.0.1", &forged), Err(ForwardedMismatch));
        assert_eq!(located(OURS, "192.0.2.9", &forged).as_deref(), Ok("192.0.2.9"));
    }
}
