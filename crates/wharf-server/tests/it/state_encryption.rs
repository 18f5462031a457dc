//! Encrypted state opens only unmodified and in its context.

use std::error::Error as _;

use proptest::prelude::*;
use wharf_model::StateCipher;
use wharf_server::KeyRing;

const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=+/. ";

/// Small random generator: the mutations need variety, not secrecy.
struct SmallRng(u64);

impl SmallRng {
    fn next(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }
}

fn mutate(sealed: &str, dice: &mut SmallRng) -> String {
    let mut bytes = sealed.as_bytes().to_vec();
    for _ in 0..=dice.next(3) {
        let (at, byte) = (dice.next(bytes.len()), ALPHABET[dice.next(ALPHABET.len())]);
        match dice.next(5) {
            0 => bytes[at] = byte,
            1 => bytes.insert(at, byte),
            2 if bytes.len() > 1 => drop(bytes.remove(at)),
            3 => bytes.truncate(at.max(1)),
            _ => {
                let other = dice.next(bytes.len());
                bytes.swap(at, other);
            }
        }
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn no_mutation_of_a_sealed_state_is_accepted() {
    let keys = KeyRing::random();
    let sealed = keys.seal(b"context", br#"{"expires":1,"steps":{}}"#);
    let mut dice = SmallRng(0x5eed);
    let mut tried = 0;
    while tried < 100_000 {
        let mutated = mutate(&sealed, &mut dice);
        if mutated != sealed {
            assert_eq!(keys.open(b"context", &mutated), None, "{mutated}");
            tried += 1;
        }
    }
    assert!(keys.open(b"context", &sealed).is_some());
}

#[test]
fn every_single_bit_counts() {
    let keys = KeyRing::random();
    let sealed = keys.seal(b"context", b"plain").into_bytes();
    for at in 0..sealed.len() {
        for bit in 0..7 {
            let mut mutated = sealed.clone();
            mutated[at] ^= 1 << bit;
            let mutated = String::from_utf8(mutated).unwrap();
            assert_eq!(keys.open(b"context", &mutated), None, "byte {at}, bit {bit}");
        }
    }
}

proptest! {
    #[test]
    fn sealed_state_opens_in_its_context_only(plain: Vec<u8>, context: Vec<u8>, other: Vec<u8>) {
        let keys = KeyRing::random();
        let sealed = keys.seal(&context, &plain);
        prop_assert!(sealed.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
        prop_assert_eq!(keys.open(&context, &sealed), Some(plain));
        prop_assert!(other == context || keys.open(&other, &sealed).is_none());
    }

    #[test]
    fn nothing_panics(text: String) {
        prop_assert_eq!(KeyRing::random().open(b"", &text), None);
        let _ = text.parse::<KeyRing>();
    }
}

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

#[test]
fn keys_come_from_a_file() {
    let path = std::env::temp_dir().join(format!("wharf-keys-{}", std::process::id()));
    std::fs::write(&path, format!("{KEY}\n")).unwrap();
    // Audit 17: on Unix, a file that others can read is refused.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        mode(0o644);
        let error = KeyRing::from_file(&path).unwrap_err().to_string();
        assert!(error.contains(&format!("`chmod 600 {}`", path.display())), "{error}");
        mode(0o600);
    }
    let keys = KeyRing::from_file(&path);
    std::fs::remove_file(&path).unwrap();
    let error = KeyRing::from_file(&path).unwrap_err();
    let source = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
    assert_eq!(source.unwrap().kind(), std::io::ErrorKind::NotFound);
    let sealed = keys.unwrap().seal(b"c", b"plain");
    assert_eq!(KEY.parse::<KeyRing>().unwrap().open(b"c", &sealed).unwrap(), b"plain");
}

/// Environment variables belong to the process, so another process reads the key.
#[test]
fn keys_come_from_the_environment() {
    if std::env::var_os("WHARF_TEST_STATE_KEY").is_some() {
        let sealed = KeyRing::from_env("WHARF_TEST_STATE_KEY").unwrap().seal(b"c", b"plain");
        assert_eq!(KEY.parse::<KeyRing>().unwrap().open(b"c", &sealed).unwrap(), b"plain");
        return;
    }
    let error = KeyRing::from_env("WHARF_TEST_STATE_KEY").unwrap_err();
    assert!(error.source().unwrap().is::<std::env::VarError>());
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "state_encryption::keys_come_from_the_environment"])
        .env("WHARF_TEST_STATE_KEY", KEY)
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && output.contains("1 passed"), "{child:?}");
}
