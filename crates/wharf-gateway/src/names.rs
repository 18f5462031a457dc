//! Public names of tools and prompts: how they are made, and the table that leads back from them.

use std::{collections::BTreeMap, sync::Arc};

use sha2::{Digest, Sha256};

/// Characters of the hash in a shortened name: 30 bits.
const HASH_LENGTH: usize = 6;
const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// Maximum number of names in a table. Beyond it, names that are not listed now lose their place.
const MAX_NAMES: usize = 65_536;
/// Maximum number of names that an error suggests, and their greatest distance.
const MAX_SUGGESTIONS: usize = 3;
const MAX_DISTANCE: usize = 12;

/// Prefixes of the names of tools and prompts.
///
/// ```
/// # mod wharf { pub mod gateway { pub use wharf_gateway::*; } }
/// use wharf::gateway::{Gateway, NamePrefix};
///
/// let builder = Gateway::builder().names(NamePrefix::Always);
/// # let _ = builder;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NamePrefix {
    /// The names of a single upstream server stay as they are; those of several have prefixes. The number of configured
    /// servers decides, whether they are connected or not.
    #[default]
    Auto,
    /// Every name has a prefix, so that another upstream server renames nothing.
    Always,
    /// No name has a prefix. If two servers have the same name, the later one is refused.
    Never,
}

/// Rules by which public names are made.
#[derive(Clone, Debug)]
pub(crate) struct NameRules {
    pub(crate) prefixed: bool,
    pub(crate) separator: String,
    /// Maximum length of a name with a prefix.
    pub(crate) budget: usize,
}

impl NameRules {
    /// Returns the public name. The same name results for every list and every call.
    pub(crate) fn public(&self, prefix: &str, name: &str) -> String {
        if !self.prefixed {
            return name.to_owned();
        }
        let full = format!("{prefix}{}{name}", self.separator);
        let legal = sanitized(&full);
        if legal.len() <= self.budget { legal } else { shortened(&legal, &full, self.budget) }
    }
}

/// Replaces every character but ASCII letters, digits, `_` and `-` by `_`.
pub(crate) fn sanitized(name: &str) -> String {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    name.chars().map(|c| if legal(c) { c } else { '_' }).collect()
}

/// Keeps head and tail of `legal`, which is ASCII, around a hash of the full name: the tail is often what differs.
fn shortened(legal: &str, full: &str, budget: usize) -> String {
    let kept = budget.saturating_sub(HASH_LENGTH + 2);
    let (head, tail) = (kept.div_ceil(2), kept / 2);
    let hash: String = base32(&Sha256::digest(full.as_bytes())).take(HASH_LENGTH).collect();
    format!("{}_{hash}_{}", &legal[..head], &legal[legal.len() - tail..])
}

fn base32(bytes: &[u8]) -> impl Iterator<Item = char> {
    (0..bytes.len() * 8 / 5).map(|group| {
        let bit = |at: usize| usize::from(bytes[at / 8] >> (7 - at % 8) & 1);
        let value = (group * 5..group * 5 + 5).fold(0, |value, at| value << 1 | bit(at));
        char::from(BASE32[value])
    })
}

/// Tool or prompt that has a public name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NameOwner {
    /// Index of the upstream server.
    pub(crate) upstream: usize,
    /// The name there.
    pub(crate) name: Arc<str>,
}

/// Table of public names. A name keeps its owner, also while the owner's server is away, so that no call reaches
/// another server than the one whose tool was listed.
#[derive(Debug, Default)]
pub(crate) struct NameTable(BTreeMap<String, NameOwner>);

impl NameTable {
    /// Gives the name to the owner, unless another has it.
    ///
    /// # Errors
    /// With the present owner.
    pub(crate) fn claim(&mut self, public: &str, owner: &NameOwner) -> Result<(), NameOwner> {
        match self.0.get(public) {
            Some(present) if present == owner => Ok(()),
            Some(present) => Err(present.clone()),
            None => {
                self.0.insert(public.to_owned(), owner.clone());
                Ok(())
            }
        }
    }

    /// Removes names for which `is_listed` is false, if the table is full.
    pub(crate) fn trim(&mut self, is_listed: impl Fn(&str) -> bool) {
        if self.0.len() > MAX_NAMES {
            self.0.retain(|name, _| is_listed(name));
        }
    }

    pub(crate) fn get(&self, public: &str) -> Option<&NameOwner> {
        self.0.get(public)
    }
}

/// Returns the names that are most like `wanted`, for an error message.
pub(crate) fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted: String = wanted.chars().take(128).collect();
    let distance = |name: &str| strsim::levenshtein(&wanted, name);
    let mut near: Vec<(usize, &str)> = names
        .filter(|name| name.len() <= 256)
        .map(|name| (distance(name), name))
        .filter(|(distance, _)| *distance <= MAX_DISTANCE.min(wanted.len() * 2 / 3))
        .collect();
    near.sort_unstable();
    near.into_iter().take(MAX_SUGGESTIONS).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rules(budget: usize) -> NameRules {
        NameRules { prefixed: true, separator: "_".into(), budget }
    }

    #[test]
    fn a_name_within_the_budget_is_readable() {
        assert_eq!(rules(46).public("github", "create_issue"), "github_create_issue");
        assert_eq!(rules(46).public("github", "repos/get.all"), "github_repos_get_all");
    }

    #[test]
    fn a_long_name_keeps_head_and_tail() {
        let name = rules(46).public("github", "list_pull_requests_with_all_comments_and_reviews");
        assert_eq!(name.len(), 46);
        assert!(name.starts_with("github_list_pull_re"), "{name}");
        assert!(name.ends_with("nts_and_reviews"), "{name}");
        let other = rules(46).public("github", "list_pull_requests_with_any_comments_and_reviews");
        assert_ne!(name, other);
    }

    #[test]
    fn base32_is_that_of_rfc_4648() {
        assert_eq!(base32(b"fooba").collect::<String>(), "mzxw6ytb");
    }

    #[test]
    fn a_name_keeps_its_first_owner() {
        let owner = |upstream, name: &str| NameOwner { upstream, name: name.into() };
        let mut table = NameTable::default();
        assert_eq!(table.claim("a_b_c", &owner(1, "b_c")), Ok(()));
        assert_eq!(table.claim("a_b_c", &owner(0, "c")), Err(owner(1, "b_c")));
        assert_eq!(table.claim("a_b_c", &owner(1, "b_c")), Ok(()));
        assert_eq!(table.get("a_b_c"), Some(&owner(1, "b_c")));
    }

    #[test]
    fn near_names_are_suggested() {
        let names = ["github_create_issue", "github_close_issue", "weather_today"];
        let found = nearest("github_creat_issue", names.into_iter());
        assert_eq!(found, ["github_create_issue", "github_close_issue"]);
        assert!(nearest("x", names.into_iter()).is_empty());
    }

    proptest! {
        #[test]
        fn every_public_name_is_legal(prefix in "[a-zA-Z0-9_-]{1,40}", name in any::<String>(), budget in 16_usize..=64) {
            let rules = rules(budget);
            let public = rules.public(&prefix, &name);
            prop_assert!(public.len() <= budget && !public.is_empty());
            prop_assert!(public.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'));
            prop_assert_eq!(&public, &rules.public(&prefix, &name));
        }

        #[test]
        fn names_that_differ_in_any_place_stay_different(name in "[a-z_]{40,120}", at in any::<prop::sample::Index>()) {
            let mut other: Vec<u8> = name.clone().into_bytes();
            let at = at.index(other.len());
            other[at] = b'Z';
            let other = String::from_utf8(other).unwrap();
            prop_assert_ne!(rules(46).public("up", &name), rules(46).public("up", &other));
        }

        #[test]
        fn the_order_of_arrival_does_not_rename(names in prop::collection::btree_set("[a-z]{1,8}", 1..20), turn in any::<prop::sample::Index>()) {
            let rules = rules(46);
            let names: Vec<String> = names.into_iter().collect();
            let public = |names: &[String]| -> BTreeMap<String, String> {
                let mut table = NameTable::default();
                let mut found = BTreeMap::new();
                for (index, name) in names.iter().enumerate() {
                    for upstream in 0..2 {
                        let prefix = ["left", "right"][(upstream + index) % 2];
                        let owner = NameOwner { upstream: (upstream + index) % 2, name: name.as_str().into() };
                        let public = rules.public(prefix, name);
                        assert_eq!(table.claim(&public, &owner), Ok(()));
                        found.insert(format!("{prefix}/{name}"), public);
                    }
                }
                found
            };
            let mut turned = names.clone();
            turned.rotate_left(turn.index(names.len()));
            prop_assert_eq!(public(&names), public(&turned));
        }
    }
}
