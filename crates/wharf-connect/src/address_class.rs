//! Classes of IP addresses, for protection against SSRF.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Range from which an IP address can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddressClass {
    /// Reachable from the internet.
    Public,
    /// This machine alone.
    Loopback,
    /// Private, shared and unique local addresses.
    Private,
    /// Reserved: link-local (cloud metadata services), translated, unassigned, multicast and broadcast
    /// addresses. No authorization server has one of them.
    Reserved,
}

/// Classifies `address`.
///
/// ```
/// use wharf_connect::{AddressClass, address_class};
///
/// assert_eq!(address_class("9.9.9.9".parse()?), AddressClass::Public);
/// assert_eq!(address_class("169.254.169.254".parse()?), AddressClass::Reserved);
/// assert_eq!(address_class("::ffff:10.0.0.1".parse()?), AddressClass::Reserved);
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
pub fn address_class(address: IpAddr) -> AddressClass {
    match address {
        IpAddr::V4(address) => address_class_v4(address),
        IpAddr::V6(address) => address_class_v6(address),
    }
}

fn address_class_v4(address: Ipv4Addr) -> AddressClass {
    match address.octets() {
        [127, ..] => AddressClass::Loopback,
        [10, ..] | [192, 168, ..] => AddressClass::Private,
        [172, b, ..] if b & 0xf0 == 16 => AddressClass::Private,
        // Carrier-grade NAT (RFC 6598).
        [100, b, ..] if b & 0xc0 == 64 => AddressClass::Private,
        // This network, link-local, protocol assignments, 6to4 relays, benchmarks.
        [0, ..] | [169, 254, ..] | [192, 0, 0, _] | [192, 88, 99, _] | [198, 18 | 19, ..] => {
            AddressClass::Reserved
        }
        // Documentation.
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => AddressClass::Reserved,
        // Multicast, reserved, broadcast.
        [224..=255, ..] => AddressClass::Reserved,
        _ => AddressClass::Public,
    }
}

fn address_class_v6(address: Ipv6Addr) -> AddressClass {
    if address == Ipv6Addr::LOCALHOST {
        return AddressClass::Loopback;
    }
    match address.segments() {
        // Unique local.
        [first, ..] if first & 0xfe00 == 0xfc00 => AddressClass::Private,
        // NAT64: as reachable as the embedded address, if that address may be translated.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            let [[a, b], [c, d]] = [high.to_be_bytes(), low.to_be_bytes()];
            match address_class_v4(Ipv4Addr::new(a, b, c, d)) {
                AddressClass::Public => AddressClass::Public,
                _ => AddressClass::Reserved,
            }
        }
        // Teredo and other protocol assignments; documentation; 6to4.
        [0x2001, 0..=0x01ff | 0x0db8, ..] | [0x2002, ..] => AddressClass::Reserved,
        [0x3fff, second, ..] if second & 0xf000 == 0 => AddressClass::Reserved,
        [first, ..] if first & 0xe000 == 0x2000 => AddressClass::Public,
        // Unspecified, IPv4-mapped, IPv4-compatible, locally translated, discard-only, link-local and
        // multicast addresses, and everything that is not assigned.
        _ => AddressClass::Reserved,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    const CORPUS: &[(AddressClass, &[&str])] = &[
        (
            AddressClass::Public,
            &[
                "1.1.1.1",
                "9.9.9.9",
                "100.63.255.255",
                "100.128.0.1",
                "172.15.0.1",
                "172.32.0.1",
                "192.167.1.1",
                "198.17.0.1",
                "198.20.0.1",
                "223.255.255.255",
                "2606:4700::1111",
                "2001:4860:4860::8888",
                "2a00::1",
                "64:ff9b::808:808",
                "3fff:1000::1",
            ],
        ),
        (AddressClass::Loopback, &["127.0.0.1", "127.255.255.254", "::1"]),
        (
            AddressClass::Private,
            &[
                "10.0.0.1",
                "172.16.0.1",
                "172.31.255.255",
                "192.168.1.1",
                "100.64.0.1",
                "100.127.255.255",
                "fc00::1",
                "fd12:3456::1",
            ],
        ),
        (
            AddressClass::Reserved,
            &[
                "0.0.0.0",
                "0.1.2.3",
                "169.254.169.254",
                "169.254.0.1",
                "192.0.0.8",
                "192.0.2.1",
                "192.88.99.1",
                "198.18.0.1",
                "198.19.255.255",
                "198.51.100.1",
                "203.0.113.1",
                "224.0.0.1",
                "239.255.255.255",
                "240.0.0.1",
                "255.255.255.255",
                "::",
                "::2",
                "::127.0.0.1",
                "::ffff:127.0.0.1",
                "::ffff:10.0.0.1",
                "::ffff:169.254.169.254",
                "::ffff:8.8.8.8",
                "::ffff:0:7f00:1",
                "64:ff9b::7f00:1",
                "64:ff9b::a00:1",
                "64:ff9b::a9fe:a9fe",
                "64:ff9b:1::808:808",
                "64:ff9b:1:7f00:1::",
                "100::1",
                "2001::1",
                "2001:0:7f00:1::",
                "2001:2::1",
                "2001:10::1",
                "2001:20::1",
                "2001:db8::1",
                "2002:7f00:1::",
                "2002:a9fe:a9fe::1",
                "3fff::1",
                "4000::1",
                "5f00::1",
                "fe80::1",
                "fe80::a9fe:a9fe",
                "febf::1",
                "fec0::1",
                "ff02::1",
                "ffff::1",
            ],
        ),
    ];

    #[test]
    fn addresses_are_classified() {
        for (class, addresses) in CORPUS {
            for address in *addresses {
                assert_eq!(address_class(address.parse().unwrap()), *class, "{address}");
            }
        }
    }
}
