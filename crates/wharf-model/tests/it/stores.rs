//! Stores that an engine sets one by one, and interfaces behind `Arc`.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use wharf_model::{
    NonceStore, Rate, RateDecision, Record, Retention, Sharing, StateCipher, Stored, Stores,
};

/// Result of a future that does not wait.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

struct Nonces;

impl NonceStore for Nonces {
    fn claim(&self, _nonce: &str, _ttl: Duration) -> Stored<bool> {
        Box::pin(async { Ok(true) })
    }
}

#[test]
fn a_store_that_is_not_set_fails_with_its_name_and_the_others_work() {
    let stores = Stores::new(Sharing::Machine).nonces(Nonces);
    let minute = Duration::from_secs(60);
    assert_eq!(now(stores.nonces.claim("n", minute)), Ok(true));
    let errors = [
        ("tasks", now(stores.tasks.insert(Record::new("a"), 1)).unwrap_err()),
        ("sessions", now(stores.sessions.load("a")).unwrap_err()),
        ("grants", now(stores.grants.sweep(1)).unwrap_err()),
        (
            "events",
            now(stores.events.append("s", vec![], Retention::new(1, 1, minute))).unwrap_err(),
        ),
        ("bus", now(stores.bus.publish("t", vec![])).unwrap_err()),
    ];
    for (name, error) in errors {
        assert!(error.kind.is_internal_error(), "{error}");
        assert!(error.message.ends_with(name), "{error}");
    }
    let unlimited = Rate { per_second: 1e6, burst: 1e6 };
    assert!(
        matches!(stores.rates.take("k", unlimited), RateDecision::Now(Err(_))),
        "a rate that is not counted is not unlimited"
    );
    assert!(stores.health.is_ready());
    assert_eq!(stores.sharing, Sharing::Machine);
}

/// Cipher of which every method differs from its default.
struct Cipher;

impl StateCipher for Cipher {
    fn seal(&self, _context: &[u8], _plain: &[u8]) -> String {
        "seal".to_owned()
    }

    fn open(&self, _context: &[u8], _sealed: &str) -> Option<Vec<u8>> {
        Some(b"open".to_vec())
    }

    fn seal_bytes(&self, _context: &[u8], _plain: &[u8]) -> Vec<u8> {
        b"seal_bytes".to_vec()
    }

    fn open_bytes(&self, _context: &[u8], _sealed: &[u8]) -> Option<Vec<u8>> {
        Some(b"open_bytes".to_vec())
    }

    fn is_shared(&self) -> bool {
        false
    }
}

#[test]
fn a_cipher_behind_arc_keeps_its_own_methods() {
    fn check(cipher: impl StateCipher) {
        assert_eq!(cipher.seal(b"", b""), "seal");
        assert_eq!(cipher.open(b"", ""), Some(b"open".to_vec()));
        assert_eq!(cipher.seal_bytes(b"", b""), b"seal_bytes");
        assert_eq!(cipher.open_bytes(b"", b""), Some(b"open_bytes".to_vec()));
        assert!(!cipher.is_shared(), "its keys end with the process");
    }
    check(Arc::new(Cipher));
    check(Arc::new(Cipher) as Arc<dyn StateCipher>);
}
