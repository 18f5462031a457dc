//! Tokens bound to a key (DPoP) or a certificate (mutual TLS).

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use wharf_auth::{
    jose::{Algorithm, SigningKey, b64, sha256},
    server::{Dpop, Jwt},
};

use wharf_testbed::fake_issuer::{
    Issuer, METADATA, Prover, SERVER, TestRequest, invalid_token, now,
};

const ALGS: &str = r#"algs="ES256 ES384 EdDSA PS256 RS256""#;

fn dpop_rejection(error: &str, problem: &str) -> (u16, String) {
    let text =
        format!(r#"DPoP error="{error}", error_description="{problem}", {METADATA}, {ALGS}"#);
    (401, text)
}

fn bad_proof(problem: &str) -> (u16, String) {
    dpop_rejection("invalid_dpop_proof", problem)
}

struct DpopSetup {
    issuer: Issuer,
    authenticator: Jwt,
    prover: Prover,
    token: String,
}

fn setup() -> DpopSetup {
    let issuer = Issuer::new();
    let prover = Prover::new();
    let token = issuer.token_with("cnf", json!({"jkt": prover.thumbprint()}));
    DpopSetup { authenticator: issuer.jwt(), issuer, prover, token }
}

impl DpopSetup {
    /// Result of a proof with one claim changed.
    async fn with(&self, name: &str, value: Value) -> (u16, String) {
        let mut claims = self.prover.claims(&self.token);
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
            value => claims[name] = value,
        }
        self.prover.request(&self.token, &claims).challenge(&self.authenticator).await
    }
}

#[tokio::test]
async fn a_proof_is_valid_once() {
    let setup = setup();
    let claims = setup.prover.claims(&setup.token);
    let request = setup.prover.request(&setup.token, &claims);
    let pass = request.authenticate(&setup.authenticator).await.unwrap();
    assert_eq!(pass.principal.id(), "https://id.example alice");
    let again = request.challenge(&setup.authenticator).await;
    assert_eq!(again, bad_proof("The proof was used before"));
    // The same `jti` with another signature is a replay.
    let again = setup.prover.request(&setup.token, &claims).challenge(&setup.authenticator).await;
    assert_eq!(again, bad_proof("The proof was used before"));
    let next = setup.prover.request(&setup.token, &setup.prover.claims(&setup.token));
    assert!(next.authenticate(&setup.authenticator).await.is_ok());
}

#[tokio::test]
async fn a_proof_is_bound_to_request_and_token() {
    let setup = setup();
    let method = bad_proof("The proof is for another method (htm)");
    assert_eq!(setup.with("htm", json!("GET")).await, method);
    assert_eq!(setup.with("htm", json!("post")).await, method);
    assert_eq!(setup.with("htm", Value::Null).await, method);
    let url = bad_proof("The proof is for another URL (htu)");
    for htu in [
        "https://mcp.example/other",
        "https://mcp.example",
        "https://mcp.example/mcp/",
        "http://mcp.example/mcp",
        "https://mcp.example:444/mcp",
        "https://evil.example/mcp",
        "https://mcp.example.evil/mcp",
        "/mcp",
        "",
    ] {
        assert_eq!(setup.with("htu", json!(htu)).await, url, "{htu}");
    }
    let token = bad_proof("The proof is for another token (ath)");
    assert_eq!(setup.with("ath", json!(b64(sha256(b"other")))).await, token);
    assert_eq!(setup.with("ath", Value::Null).await, token);
    let time = bad_proof("The proof is too old or from the future (iat)");
    assert_eq!(setup.with("iat", json!(now() - 70)).await, time);
    assert_eq!(setup.with("iat", json!(now() + 70)).await, time);
    assert_eq!(setup.with("iat", json!("now")).await, time);
    assert_eq!(setup.with("jti", Value::Null).await, bad_proof("The proof has no jti"));
    assert_eq!(setup.with("jti", json!("x".repeat(600))).await, bad_proof("The proof has no jti"));
}

#[tokio::test]
async fn proof_urls_are_normalized() {
    let setup = setup();
    for htu in [
        SERVER,
        "HTTPS://MCP.example:443/mcp",
        "https://mcp.example/mcp?a=b#c",
        "https://mcp.example/a/../mcp",
        "wss://mcp.example/mcp",
    ] {
        let mut claims = setup.prover.claims(&setup.token);
        claims["htu"] = json!(htu);
        let request = setup.prover.request(&setup.token, &claims);
        assert!(request.authenticate(&setup.authenticator).await.is_ok(), "{htu}");
    }
    // An SSE stream of the same server at its own path.
    let mut claims = setup.prover.claims(&setup.token);
    (claims["htu"], claims["htm"]) = (json!("https://mcp.example/sse"), json!("GET"));
    let request = setup.prover.request(&setup.token, &claims).uri("/sse").method(Method::GET);
    assert!(request.authenticate(&setup.authenticator).await.is_ok());
}

#[tokio::test]
async fn malformed_proofs_are_rejected() {
    let mut setup = setup();
    let claims = setup.prover.claims(&setup.token);
    let dpop =
        || TestRequest::without_token().header("authorization", &format!("DPoP {}", setup.token));
    let result = dpop().challenge(&setup.authenticator).await;
    assert_eq!(result, bad_proof("There is no proof: send one in the DPoP header"));
    let proof = setup.prover.proof(&claims);
    let result =
        dpop().header("dpop", &proof).header("dpop", &proof).challenge(&setup.authenticator).await;
    assert_eq!(result, bad_proof("There must be one DPoP header"));
    let result = dpop().header("dpop", "abc").challenge(&setup.authenticator).await;
    assert_eq!(result, bad_proof("The proof is malformed"));
    let result = dpop().header("dpop", &"a".repeat(9000)).challenge(&setup.authenticator).await;
    assert_eq!(result, bad_proof("The proof is too long"));
    let unsigned =
        format!("{}.{}.", b64(r#"{"alg":"none","typ":"dpop+jwt"}"#), b64(claims.to_string()));
    let result = dpop().header("dpop", &unsigned).challenge(&setup.authenticator).await;
    assert_eq!(result, bad_proof("The proof is malformed"));

    let own = setup.prover.header.clone();
    for (member, value, problem) in [
        ("typ", json!("JWT"), "The proof's typ must be dpop+jwt"),
        ("jwk", json!({"kty": "oct", "k": "AAAA"}), "The proof contains no supported public key"),
        ("jwk", Value::Null, "The proof contains no supported public key"),
        (
            "jwk",
            serde_json::to_value(SigningKey::generate().unwrap().public_jwk()).unwrap(),
            "The proof's signature or algorithm is invalid",
        ),
    ] {
        setup.prover.header = own.clone();
        setup.prover.header[member] = value;
        let result =
            setup.prover.request(&setup.token, &claims).challenge(&setup.authenticator).await;
        assert_eq!(result, bad_proof(problem));
    }
    setup.prover.header = own;
    setup.prover.header["jwk"]["d"] = json!("AAAA");
    let result = setup.prover.request(&setup.token, &claims).challenge(&setup.authenticator).await;
    let problem =
        "The proof contains a private key: generate a new key, and send only its public part";
    assert_eq!(result, bad_proof(problem));
    // A valid proof of another key.
    let thief = Prover::new();
    let result = thief.request(&setup.token, &claims).challenge(&setup.authenticator).await;
    assert_eq!(result, bad_proof("The proof is signed with another key than the token's"));
}

#[tokio::test]
async fn algorithms_of_proofs_are_listed() {
    let setup = setup();
    let authenticator = setup.issuer.jwt().dpop(Dpop::accepted().algorithms([Algorithm::EdDSA]));
    let claims = setup.prover.claims(&setup.token);
    let (status, challenge) =
        setup.prover.request(&setup.token, &claims).challenge(&authenticator).await;
    assert_eq!(status, 401);
    assert!(challenge.contains("signature or algorithm") && challenge.ends_with(r#"algs="EdDSA""#));
}

#[tokio::test]
async fn bound_tokens_are_not_for_bearers_and_others_not_for_proofs() {
    let setup = setup();
    let problem = "The token is bound to a key: send it with DPoP and a proof";
    // Twice: the cached token is bound as well.
    for _ in 0..2 {
        let result = TestRequest::bearer(&setup.token).challenge(&setup.authenticator).await;
        assert_eq!(result, dpop_rejection("invalid_token", problem));
    }
    let free = setup.issuer.good_token();
    let claims = setup.prover.claims(&free);
    let result = setup.prover.request(&free, &claims).challenge(&setup.authenticator).await;
    let problem = "The token is not bound to a key: send it as Bearer";
    assert_eq!(result, dpop_rejection("invalid_token", problem));
}

#[tokio::test]
async fn dpop_can_be_required() {
    let setup = setup();
    let authenticator = setup.issuer.jwt().dpop(Dpop::required());
    let challenge = format!("DPoP {METADATA}, {ALGS}");
    assert_eq!(
        TestRequest::without_token().challenge(&authenticator).await,
        (401, challenge.clone())
    );
    for _ in 0..2 {
        let result =
            TestRequest::bearer(&setup.issuer.good_token()).challenge(&authenticator).await;
        let problem = "Only tokens that are bound to a key are accepted: use DPoP";
        assert_eq!(result, dpop_rejection("invalid_token", problem));
    }
    // If DPoP is optional, both schemes are announced, the more common one first.
    let authenticator = setup.issuer.jwt().dpop(Dpop::accepted());
    let both = vec![format!("Bearer {METADATA}"), challenge];
    assert_eq!(TestRequest::without_token().rejected(&authenticator).await, (401, both));
}

#[tokio::test]
async fn nonces_are_issued_and_required() {
    let setup = setup();
    let dpop = Dpop::accepted().nonce_key(&[7; 32]);
    let authenticator = setup.issuer.jwt().dpop(dpop.clone());
    let mut claims = setup.prover.claims(&setup.token);
    let denied =
        setup.prover.request(&setup.token, &claims).authenticate(&authenticator).await.unwrap_err();
    let problem = "The proof must contain the nonce of DPoP-Nonce";
    assert_eq!(
        wharf_testbed::fake_issuer::challenges(&denied),
        [dpop_rejection("use_dpop_nonce", problem).1]
    );
    let nonce = denied.headers["dpop-nonce"].to_str().unwrap().to_owned();
    // The rejected proof was not consumed.
    claims["nonce"] = json!(nonce);
    assert!(setup.prover.request(&setup.token, &claims).authenticate(&authenticator).await.is_ok());
    // A process with the same key accepts it, one with another key does not.
    let other = setup.issuer.jwt().dpop(dpop);
    assert!(setup.prover.request(&setup.token, &claims).authenticate(&other).await.is_ok());
    let foreign = setup.issuer.jwt().dpop(Dpop::accepted().nonces());
    for nonce in [&*nonce, "", "x", &b64([0; 40])] {
        claims["nonce"] = json!(nonce);
        let result = setup.prover.request(&setup.token, &claims).challenge(&foreign).await;
        assert_eq!(result, dpop_rejection("use_dpop_nonce", problem), "{nonce}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_shares_used_proofs() {
    let setup = setup();
    let used = std::sync::Arc::new(RecordingNonceStore::default());
    let authenticator = || setup.issuer.jwt().dpop(Dpop::accepted().store(used.clone()));
    let request = setup.prover.request(&setup.token, &setup.prover.claims(&setup.token));
    assert!(request.authenticate(&authenticator()).await.is_ok());
    let result = request.challenge(&authenticator()).await;
    assert_eq!(result, bad_proof("The proof was used before"));
    let claims = used.0.lock().unwrap();
    assert_eq!(claims.len(), 1);
    let (name, ttl) = claims.iter().next().unwrap();
    assert!(name.starts_with("dpop:") && *ttl >= Duration::from_secs(90), "{name} {ttl:?}");
}

#[derive(Default)]
struct RecordingNonceStore(std::sync::Mutex<std::collections::HashMap<String, Duration>>);

impl wharf_model::NonceStore for RecordingNonceStore {
    fn claim(&self, nonce: &str, ttl: Duration) -> wharf_model::Stored<bool> {
        let fresh = self.0.lock().unwrap().insert(nonce.to_owned(), ttl).is_none();
        Box::pin(async move { Ok(fresh) })
    }
}

#[tokio::test]
async fn a_token_bound_to_a_certificate_needs_it() {
    let issuer = Issuer::new();
    let authenticator = issuer.jwt();
    let token = issuer.token_with("cnf", json!({"x5t#S256": b64(sha256(b"certificate"))}));
    let wrong = invalid_token("The token is bound to another client certificate");
    for _ in 0..2 {
        assert_eq!(TestRequest::bearer(&token).challenge(&authenticator).await, wrong);
        let other = TestRequest::bearer(&token).certificate(b"another");
        assert_eq!(other.challenge(&authenticator).await, wrong);
        let own = TestRequest::bearer(&token).certificate(b"certificate");
        assert!(own.authenticate(&authenticator).await.is_ok());
    }
    // Both bindings.
    let prover = Prover::new();
    let both = json!({"jkt": prover.thumbprint(), "x5t#S256": b64(sha256(b"certificate"))});
    let token = issuer.token_with("cnf", both);
    let request = prover.request(&token, &prover.claims(&token));
    let (status, challenge) = request.challenge(&authenticator).await;
    assert!(status == 401 && challenge.contains("client certificate"), "{challenge}");
    let request = prover.request(&token, &prover.claims(&token)).certificate(b"certificate");
    assert!(request.authenticate(&authenticator).await.is_ok());
}

/// With a guessable key, nonces could be precomputed.
#[tokio::test]
async fn a_short_nonce_key_is_rejected() {
    let problems = |key: &[u8]| {
        let authenticator = Issuer::new().jwt().dpop(Dpop::required().nonce_key(key));
        wharf_model::Authenticator::problems(&authenticator)
    };
    for key in [&b""[..], b"secret", &[7; 31]] {
        let problems = problems(key);
        assert_eq!(problems.len(), 1, "{problems:?}");
        let told = format!("has {} bytes: use at least 32", key.len());
        assert!(problems[0].contains(&told), "{problems:?}");
    }
    assert_eq!(problems(&[7; 32]), Vec::<String>::new());
}
