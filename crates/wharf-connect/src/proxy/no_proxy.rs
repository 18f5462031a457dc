//! `NO_PROXY`: hosts that are reached without a proxy.

use std::net::IpAddr;

use url::Host;

use crate::Origin;

/// Exceptions of a proxy.
#[derive(Debug)]
pub(crate) struct NoProxy(Vec<NoProxyRule>);

#[derive(Debug)]
struct NoProxyRule {
    hosts: RuleHosts,
    port: Option<u16>,
}

#[derive(Debug)]
enum RuleHosts {
    All,
    /// A name and its subdomains.
    Domain(String),
    /// Addresses that have the first bits of this one.
    Network(IpAddr, u32),
}

impl NoProxy {
    /// Parses a list with commas or spaces. Invalid entries match nothing.
    pub(crate) fn parse(list: &str) -> NoProxy {
        let entries = list.split([',', ' ', '\t', '\n']).filter(|it| !it.is_empty());
        NoProxy(entries.filter_map(NoProxyRule::parse).collect())
    }

    pub(crate) fn contains(&self, origin: &Origin) -> bool {
        self.0.iter().any(|rule| rule.matches(origin))
    }
}

impl NoProxyRule {
    fn parse(entry: &str) -> Option<NoProxyRule> {
        if let Some(hosts) = network(entry) {
            return Some(NoProxyRule { hosts, port: None });
        }
        let (host, port) = match entry.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().ok()?)),
            None => (entry, None),
        };
        let hosts = match host {
            "*" => RuleHosts::All,
            host => match network(host) {
                Some(network) => network,
                None => {
                    let name = host.strip_prefix('*').unwrap_or(host);
                    let name = name.trim_start_matches('.').trim_end_matches('.');
                    // In the form that a URL gets, also for international names.
                    RuleHosts::Domain(Host::parse(name).ok()?.to_string())
                }
            },
        };
        Some(NoProxyRule { hosts, port })
    }

    fn matches(&self, origin: &Origin) -> bool {
        if self.port.is_some_and(|port| port != origin.port()) {
            return false;
        }
        match (&self.hosts, origin.address()) {
            (RuleHosts::All, _) => true,
            (RuleHosts::Network(network, bits), Some(address)) => {
                shares_prefix(*network, address, *bits)
            }
            (RuleHosts::Domain(name), None) => {
                let host = origin.host();
                let rest = host.trim_end_matches('.').strip_suffix(name.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            }
            _ => false,
        }
    }
}

/// Parses an address or a network: `10.0.0.1`, `[::1]`, `::1`, `10.0.0.0/8`.
fn network(entry: &str) -> Option<RuleHosts> {
    let (address, bits) = match entry.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse().ok()?)),
        None => (entry, None),
    };
    let address = address.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(address);
    let address: IpAddr = address.parse().ok()?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(longest);
    (bits <= longest).then_some(RuleHosts::Network(address, bits))
}

fn shares_prefix(network: IpAddr, address: IpAddr, bits: u32) -> bool {
    let differs = match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            (network.to_bits() ^ address.to_bits()).checked_shr(32 - bits).map(u128::from)
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            (network.to_bits() ^ address.to_bits()).checked_shr(128 - bits)
        }
        _ => return false,
    };
    // A shift by all bits leaves nothing that could differ.
    differs.unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn the_rules_of_no_proxy() {
        let rows: &[(&str, &[&str], &[&str])] = &[
            // Rules, targets without a proxy, targets with one.
            ("", &[], &["http://a.example", "http://10.0.0.1"]),
            ("*", &["http://a.example", "https://[fd00::1]:8443"], &[]),
            (
                "example.com",
                &["http://example.com", "https://a.b.EXAMPLE.com:8443", "http://example.com."],
                &["http://badexample.com", "http://example.com.evil.example", "http://com"],
            ),
            (
                ".example.com",
                &["http://example.com", "http://a.example.com"],
                &["http://aexample.com"],
            ),
            ("*.example.com", &["http://a.example.com"], &["http://aexample.com"]),
            ("example.com:8443", &["https://example.com:8443"], &["https://example.com"]),
            ("*:8443", &["https://a:8443"], &["https://a"]),
            ("a, b\tc", &["http://a", "http://b", "http://c"], &["http://d"]),
            ("bücher.example", &["http://xn--bcher-kva.example"], &["http://bcher.example"]),
            (
                "10.0.0.1",
                &["http://10.0.0.1", "http://0xa000001"],
                &["http://10.0.0.2", "http://10.0.0.1.nip.io"],
            ),
            (
                "10.0.0.0/8",
                &["http://10.255.0.1:81"],
                &["http://11.0.0.1", "http://[::ffff:10.0.0.1]"],
            ),
            ("10.0.0.0/0", &["http://8.8.8.8"], &["http://[fd00::1]"]),
            ("10.0.0.1:81", &["http://10.0.0.1:81"], &["http://10.0.0.1"]),
            ("fd00::/8", &["http://[fd12::1]"], &["http://[fe80::1]"]),
            ("::1", &["http://[::1]:81"], &["http://[::2]"]),
            ("[fd00::1]", &["http://[fd00::1]:81"], &["http://[fd00::2]"]),
            ("[fd00::1]:81", &["http://[fd00::1]:81"], &["http://[fd00::1]"]),
            ("10.0.0.0/33,a:b,,/8", &[], &["http://10.0.0.1", "http://a", "http://b"]),
        ];
        for (rules, without, with) in rows {
            let exceptions = NoProxy::parse(rules);
            let contains = |target: &str| exceptions.contains(&Origin::parse(target).unwrap());
            for target in *without {
                assert!(contains(target), "{rules:?} has {target}");
            }
            for target in *with {
                assert!(!contains(target), "{rules:?} does not have {target}");
            }
        }
    }
}
