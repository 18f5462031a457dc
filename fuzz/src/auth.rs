//! Tokens and challenges, and the configuration files of other programs.

use std::sync::LazyLock;

use serde_json::{Value, json};
use wharf::client::config::{Config, masked_url, masked_variable};
use wharf_auth::{
    client::Challenge,
    jose::{Algorithm, Jwk, JwkSet, SigningKey, UnverifiedToken, b64},
};

/// A key, and a token that it signed.
static SIGNED: LazyLock<(Jwk, String)> = LazyLock::new(|| {
    let key = SigningKey::generate().unwrap();
    let claims = json!({"iss": "https://id.example", "sub": "ann", "aud": ["a", "b"], "exp": 9});
    (key.public_jwk(), key.sign(&json!({"typ": "at+jwt", "kid": "1"}), &claims).unwrap())
});

/// JWT, JWK and verification: the input is a token, the parts of one before encoding (header, line feed, claims),
/// a key, or a change of a valid token.
pub fn tokens(data: &[u8]) {
    let (key, signed) = &*SIGNED;
    if let Ok(text) = std::str::from_utf8(data) {
        assert!(verify(text, key).is_none() || text == signed);
        let (header, claims) = text.split_once('\n').unwrap_or((text, "{}"));
        let signature = signed.rsplit('.').next().unwrap_or_default();
        let forged = format!("{}.{}.{signature}", b64(header), b64(claims));
        assert!(verify(&forged, key).is_none() || forged == *signed);
    }
    if let Ok(value) = serde_json::from_slice::<Value>(data) {
        read_key(&value, signed);
        let _ = serde_json::from_value::<JwkSet>(value);
    }
    let mut changed = signed.clone().into_bytes();
    for change in data.chunks_exact(3).take(4) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % changed.len();
        changed[at] = change[2];
    }
    if let Ok(changed) = String::from_utf8(changed) {
        assert!(verify(&changed, key).is_none() || changed == *signed, "{changed} was accepted");
    }
}

fn verify(token: &str, key: &Jwk) -> Option<()> {
    let token = UnverifiedToken::parse(token).ok()?;
    let claims = token.verify(key, Algorithm::ALL).ok()?;
    let _ = (claims.texts("aud"), claims.time("exp"), token.header.is_type("at+jwt"));
    Some(())
}

/// A key that is read survives being written; none but the signer verifies the token.
fn read_key(value: &Value, signed: &str) {
    let Ok(key) = Jwk::from_json(value) else { return };
    let again = Jwk::from_json(&json!(key)).expect("a written key can be read");
    assert_eq!(again.thumbprint(), key.thumbprint());
    assert!(verify(signed, &key).is_none(), "another key verifies the token");
}

/// `WWW-Authenticate`: each line is one header.
pub fn challenges(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let found = Challenge::parse(text.lines());
    for challenge in &found {
        assert!(!challenge.scheme.is_empty());
        for (name, _) in &challenge.params {
            assert_eq!(*name, name.to_ascii_lowercase());
            assert!(challenge.get(name).is_some());
        }
    }
    let written: Vec<String> = found.iter().map(write).collect();
    let again = Challenge::parse(written.iter().map(String::as_str));
    let length: usize = written.iter().map(String::len).sum();
    assert!(again == found || length > 16 << 10, "{found:?} became {again:?}");
}

fn write(challenge: &Challenge) -> String {
    let quoted = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"");
    let parameter = |(name, value): &(String, String)| format!("{name}=\"{}\"", quoted(value));
    let parameters = challenge.params.iter().map(parameter);
    let parts: Vec<String> = challenge.token68.iter().cloned().chain(parameters).collect();
    format!("{} {}", challenge.scheme, parts.join(", "))
}

/// Configuration files of other programs. Nothing is started, and no variable of the environment read.
pub fn configs(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (name, value) = text.split_once('\n').unwrap_or((text, ""));
    let _ = (masked_url(name), masked_variable(name, value));
    for path in ["mcp.json", ".vscode/mcp.json", ".claude.json"] {
        let Ok(config) = Config::parse(text, path) else { continue };
        for entry in &config.entries {
            assert!(!entry.is_trusted(), "the file of a project is trusted");
            assert!(config.entry(&entry.name).is_some());
            let _ = (entry.summary(), entry.is_disabled(), entry.variables(), entry.env_file());
            let _ = (entry.problem(), entry.warnings(), entry.masked(), entry.as_written());
            assert!(entry.resolve().is_err(), "an entry that is not trusted was resolved");
        }
    }
}
