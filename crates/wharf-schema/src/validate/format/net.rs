//! Host names, IP addresses, email addresses and UUIDs.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{ascii::AsciiSet, idna};

/// Characters of a mailbox name that is not quoted.
const MAILBOX: AsciiSet = AsciiSet::ALPHANUMERIC.and("!#$%&'*+-/=?^_`{|}~");

pub(super) fn is_ipv4(text: &str) -> bool {
    text.parse::<Ipv4Addr>().is_ok()
}

pub(super) fn is_ipv6(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok()
}

/// Labels of letters, digits and hyphens (RFC 1123).
pub(super) fn is_plain_hostname(text: &str) -> bool {
    hostname(text).is_some()
}

/// Host name of RFC 5890: hyphens at positions 3 and 4 are reserved for Punycode, which must decode
/// to a valid internationalized label.
pub(super) fn is_hostname(text: &str) -> bool {
    hostname(text).is_some_and(|it| !it.has_prefix || idna::is_name(text))
}

/// A host name of RFC 1123.
struct Hostname {
    /// True if a label has hyphens at positions 3 and 4.
    has_prefix: bool,
}

fn hostname(text: &str) -> Option<Hostname> {
    let (mut length, mut last, mut has_prefix) = (0, b'.', false);
    for byte in text.bytes() {
        match byte {
            b'.' if length > 0 && last != b'-' => length = 0,
            b'-' if length > 0 => {
                length += 1;
                has_prefix |= length == 4 && last == b'-';
            }
            _ if byte.is_ascii_alphanumeric() => length += 1,
            _ => return None,
        }
        if length > 63 {
            return None;
        }
        last = byte;
    }
    (length > 0 && last != b'-' && text.len() <= 253).then_some(Hostname { has_prefix })
}

pub(super) fn is_idn_hostname(text: &str) -> bool {
    is_hostname(text) || idna::is_name(text)
}

/// Domain of an RFC 6531 address: labels in any script, not necessarily normalized.
fn is_mail_domain(text: &str) -> bool {
    let is_char = |it: char| it.is_alphanumeric() || it == '-' || !it.is_ascii();
    let is_label = |label: &str| {
        (1..=63).contains(&label.chars().count())
            && label.chars().all(is_char)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.split(idna::DOT_CHARACTERS).all(is_label)
}

pub(super) fn is_email(text: &str) -> bool {
    text.is_ascii() && is_mailbox(text, is_hostname)
}

pub(super) fn is_idn_email(text: &str) -> bool {
    is_mailbox(text, is_mail_domain)
}

fn is_mailbox(text: &str, is_host: fn(&str) -> bool) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let literal = domain.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let is_domain = match literal {
        Some(literal) => match literal.get(..5) {
            Some(tag) if tag.eq_ignore_ascii_case("IPv6:") => is_ipv6(&literal[5..]),
            _ => is_ipv4(literal),
        },
        None => is_host(domain),
    };
    is_domain && local.len() <= 64 && (is_dotted_words(local) || is_quoted(local))
}

fn is_dotted_words(local: &str) -> bool {
    let is_char = |it: &u8| !it.is_ascii() || MAILBOX.has(*it);
    let mut words = local.as_bytes().split(|it| *it == b'.');
    words.all(|word| !word.is_empty() && word.iter().all(is_char))
}

fn is_quoted(local: &str) -> bool {
    let inside = local.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    let Some(inside) = inside else { return false };
    let mut chars = inside.chars();
    while let Some(next) = chars.next() {
        let is_right = match next {
            '\\' => chars.next().is_some_and(|it| !it.is_ascii_control()),
            '"' => false,
            other => !other.is_ascii_control(),
        };
        if !is_right {
            return false;
        }
    }
    true
}

pub(super) fn is_uuid(text: &str) -> bool {
    let is_part = |(part, length): (&str, usize)| {
        part.len() == length && part.bytes().all(|it| it.is_ascii_hexdigit())
    };
    text.len() == 36
        && text.split('-').zip([8, 4, 4, 4, 12]).all(is_part)
        && text.matches('-').count() == 4
}
