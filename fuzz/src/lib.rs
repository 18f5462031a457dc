//! Bodies of the fuzz targets: each is a plain function that panics if a property of its parser does not hold.
//!
//! `cargo fuzz` runs them with inputs that libFuzzer finds, and a test of this crate with its seeds and with generated
//! input. See `README.md`.
#![forbid(unsafe_code)]

mod auth;
pub mod corpus;
mod framing;
mod front_matter;
mod http;
mod input;
mod patterns;
mod schemas;
mod sealed;
mod templates;
mod wire;

pub use auth::{challenges, configs, tokens};
pub use framing::{events, frames, lines};
pub use front_matter::front_matter;
pub use http::headers;
#[cfg(fuzzing)]
#[doc(hidden)]
pub use libfuzzer_sys;
pub use patterns::patterns;
pub use schemas::schemas;
pub use sealed::sealed;
pub use templates::templates;
pub use wire::{messages, replies};

/// Body of a target.
pub type Body = fn(&[u8]);

/// All targets: the name of the binary, and the body.
pub const TARGETS: [(&str, Body); 14] = [
    ("messages", messages),
    ("replies", replies),
    ("lines", lines),
    ("events", events),
    ("frames", frames),
    ("headers", headers),
    ("templates", templates),
    ("schemas", schemas),
    ("patterns", patterns),
    ("tokens", tokens),
    ("sealed", sealed),
    ("challenges", challenges),
    ("configs", configs),
    ("front_matter", front_matter),
];

/// Entry point of the binary of one target: libFuzzer's under `cargo fuzz`, otherwise a program that runs the body
/// with the files in its arguments.
///
/// libFuzzer's part expands to an exported function (`no_mangle`), which counts as unsafe code. The lint does not
/// see it, because the macro is from another crate.
#[macro_export]
macro_rules! fuzz_target {
    ($name:ident) => {
        #[cfg(fuzzing)]
        $crate::libfuzzer_sys::fuzz_target!(|data: &[u8]| $crate::$name(data));

        #[cfg(not(fuzzing))]
        fn main() -> std::io::Result<()> {
            $crate::run_files($crate::$name)
        }
    };
}

/// Runs a body with each file that an argument names.
///
/// # Errors
/// If a file cannot be read.
pub fn run_files(body: Body) -> std::io::Result<()> {
    for path in std::env::args_os().skip(1) {
        body(&std::fs::read(path)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*, sample::Index};

    use super::*;

    /// A change of a seed: where, how many bytes are removed there, and the bytes that take their place.
    fn changes() -> impl Strategy<Value = Vec<(Index, usize, Vec<u8>)>> {
        vec((any::<Index>(), 0..4_usize, vec(any::<u8>(), 0..4)), 0..6)
    }

    fn change(seed: &[u8], changes: &[(Index, usize, Vec<u8>)]) -> Vec<u8> {
        let mut changed = seed.to_vec();
        for (at, removed, added) in changes {
            let at = at.index(changed.len() + 1);
            let end = changed.len().min(at + removed);
            changed.splice(at..end, added.iter().copied());
        }
        changed
    }

    macro_rules! targets {
        ($($name:ident)*) => {
            $(mod $name {
                use super::*;

                #[test]
                fn seeds_hold() {
                    let seeds = corpus::seeds(stringify!($name)).unwrap();
                    assert!(!seeds.is_empty());
                    seeds.iter().for_each(|seed| crate::$name(seed));
                }

                #[test]
                fn changed_seeds_hold() {
                    let seeds = corpus::seeds(stringify!($name)).unwrap();
                    let config = ProptestConfig { failure_persistence: None, ..Default::default() };
                    proptest!(config, |(seed in any::<Index>(), changes in changes())| {
                        crate::$name(&change(seed.get::<Vec<u8>>(&seeds), &changes));
                    });
                }
            })*

            #[test]
            fn all_targets_are_tested() {
                assert_eq!(TARGETS.map(|(name, _)| name), [$(stringify!($name)),*]);
            }
        };
    }

    targets! {
        messages replies lines events frames headers templates schemas patterns tokens sealed
        challenges configs front_matter
    }
}
