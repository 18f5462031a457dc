//! Tokens bound to a key (DPoP) or a certificate (mutual TLS).

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use wharf_auth::{
    jose::{Algorithm, SigningKey, b64, sha256},
    server::{Dpop, Jwt},
};

use crate::bed::{Issuer, METADATA, Prover, SERVER, UserAgentSession, invalid_token, now};

const ALGS: &str = r#"algs="ES256 ES384 EdDSA PS256 RS256""#;

fn refused(error: &str, problem: &str) -> (u16, String) {
    let text =
        format!(r#"DPoP error="{error}", error_description="{problem}", {METADATA}, {ALGS}"#);
    (401, text)
}

fn bad_proof(problem: &str) -> (u16, String) {
    refused("invalid_dpop_proof", problem)
}

struct Bed {
    issuer: Issuer,
    authority: Jwt,
    prover: Prover,
    token: String,
}

fn bed() -> Bed {
    let issuer = Issuer::new();
    let prover = Prover::new();
    let token = issuer.token_with("cnf", json!({"jkt": prover.thumbprint()}));
    Bed { authority: issuer.jwt(), issuer, prover, token }
}

impl Bed {
    /// Result of a proof with one claim changed.
    async fn with(&self, name: &str, value: Value) -> (u16, String) {
        let mut claims = self.prover.claims(&self.token);
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
            value => claims[name] = value,
        }
        self.prover.session(&self.token, &claims).challenge(&self.authority).await
    }
}

#[tokio::test]
async fn a_proof_lets_the_owner_in_once() {
    let bed = bed();
    let claims = bed.prover.claims(&bed.token);
    let session = bed.prover.session(&bed.token, &claims);
    let pass = session.request(&bed.authority).await.unwrap();
    assert_eq!(pass.principal.id(), "https://id.example alice");
    let again = session.challenge(&bed.authority).await;
    assert_eq!(again, bad_proof("The proof was used before"));
    // The same `jti` with another signature is a replay.
    let again = bed.prover.session(&bed.token, &claims).challenge(&bed.authority).await;
    assert_eq!(again, bad_proof("The proof was used before"));
    let next = bed.prover.session(&bed.token, &bed.prover.claims(&bed.token));
    assert!(next.request(&bed.authority).await.is_ok());
}

#[tokio::test]
async fn a_proof_is_of_this_request_and_this_token() {
    let bed = bed();
    let method = bad_proof("The proof is for another method (htm)");
    assert_eq!(bed.with("htm", json!("GET")).await, method);
    assert_eq!(bed.with("htm", json!("post")).await, method);
    assert_eq!(bed.with("htm", Value::Null).await, method);
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
        assert_eq!(bed.with("htu", json!(htu)).await, url, "{htu}");
    }
    let token = bad_proof("The proof is for another token (ath)");
    assert_eq!(bed.with("ath", json!(b64(sha256(b"other")))).await, token);
    assert_eq!(bed.with("ath", Value::Null).await, token);
    let time = bad_proof("The proof is too old or from the future (iat)");
    assert_eq!(bed.with("iat", json!(now() - 70)).await, time);
    assert_eq!(bed.with("iat", json!(now() + 70)).await, time);
    assert_eq!(bed.with("iat", json!("now")).await, time);
    assert_eq!(bed.with("jti", Value::Null).await, bad_proof("The proof has no jti"));
    assert_eq!(bed.with("jti", json!("x".repeat(600))).await, bad_proof("The proof has no jti"));
}

#[tokio::test]
async fn urls_are_compared_as_what_they_mean() {
    let bed = bed();
    for htu in [
        SERVER,
        "HTTPS://MCP.example:443/mcp",
        "https://mcp.example/mcp?a=b#c",
        "https://mcp.example/a/../mcp",
        "wss://mcp.example/mcp",
    ] {
        let mut claims = bed.prover.claims(&bed.token);
        claims["htu"] = json!(htu);
        let session = bed.prover.session(&bed.token, &claims);
        assert!(session.request(&bed.authority).await.is_ok(), "{htu}");
    }
    // An SSE stream of the same server at its own path.
    let mut claims = bed.prover.claims(&bed.token);
    (claims["htu"], claims["htm"]) = (json!("https://mcp.example/sse"), json!("GET"));
    let session = bed.prover.session(&bed.token, &claims).uri("/sse").method(Method::GET);
    assert!(session.request(&bed.authority).await.is_ok());
}

#[tokio::test]
async fn a_proof_is_a_proof() {
    let mut bed = bed();
    let claims = bed.prover.claims(&bed.token);
    let dpop =
        || UserAgentSession::nobody().header("authorization", &format!("DPoP {}", bed.token));
    let verdict = dpop().challenge(&bed.authority).await;
    assert_eq!(verdict, bad_proof("There is no proof: send one in the DPoP header"));
    let proof = bed.prover.proof(&claims);
    let verdict =
        dpop().header("dpop", &proof).header("dpop", &proof).challenge(&bed.authority).await;
    assert_eq!(verdict, bad_proof("There must be one DPoP header"));
    let verdict = dpop().header("dpop", "abc").challenge(&bed.authority).await;
    assert_eq!(verdict, bad_proof("The proof is malformed"));
    let verdict = dpop().header("dpop", &"a".repeat(9000)).challenge(&bed.authority).await;
    assert_eq!(verdict, bad_proof("The proof is too long"));
    let unsigned =
        format!("{}.{}.", b64(r#"{"alg":"none","typ":"dpop+jwt"}"#), b64(claims.to_string()));
    let verdict = dpop().header("dpop", &unsigned).challenge(&bed.authority).await;
    assert_eq!(verdict, bad_proof("The proof is malformed"));

    let own = bed.prover.header.clone();
    for (member, value, problem) in [
        ("typ", json!("JWT"), "The proof's typ must be dpop+jwt"),
        (
            "jwk",
            json!({"kty": "oct", "k": "AAAA"}),
            "The proof contains no supported public key",
        ),
        ("jwk", Value::Null, "The proof contains no supported public key"),
        (
            "jwk",
            serde_json::to_value(SigningKey::generate().unwrap().public_jwk()).unwrap(),
            "The proof's signature or algorithm is invalid",
        ),
    ] {
        bed.prover.header = own.clone();
        bed.prover.header[member] = value;
        let verdict = bed.prover.session(&bed.token, &claims).challenge(&bed.authority).await;
        assert_eq!(verdict, bad_proof(problem));
    }
    bed.prover.header = own;
    bed.prover.header["jwk"]["d"] = json!("AAAA");
    let verdict = bed.prover.session(&bed.token, &claims).challenge(&bed.authority).await;
    let problem = "The proof contains a private key: generate a new key, and send only its public part";
    assert_eq!(verdict, bad_proof(problem));
    // A valid proof of another key.
    let thief = Prover::new();
    let verdict = thief.session(&bed.token, &claims).challenge(&bed.authority).await;
    assert_eq!(verdict, bad_proof("The proof is signed with another key than the token's"));
}

#[tokio::test]
async fn algorithms_of_proofs_are_listed() {
    let bed = bed();
    let authority = bed.issuer.jwt().dpop(Dpop::accepted().algorithms([Algorithm::EdDSA]));
    let claims = bed.prover.claims(&bed.token);
    let (status, challenge) = bed.prover.session(&bed.token, &claims).challenge(&authority).await;
    assert_eq!(status, 401);
    assert!(challenge.contains("signature or algorithm") && challenge.ends_with(r#"algs="EdDSA""#));
}

#[tokio::test]
async fn bound_tokens_are_not_for_bearers_and_others_not_for_proofs() {
    let bed = bed();
    let problem = "The token is bound to a key: send it with DPoP and a proof";
    // Twice: the cached token is bound as well.
    for _ in 0..2 {
        let verdict = UserAgentSession::bearer(&bed.token).challenge(&bed.authority).await;
        assert_eq!(verdict, refused("invalid_token", problem));
    }
    let free = bed.issuer.good_token();
    let claims = bed.prover.claims(&free);
    let verdict = bed.prover.session(&free, &claims).challenge(&bed.authority).await;
    let problem = "The token is not bound to a key: send it as Bearer";
    assert_eq!(verdict, refused("invalid_token", problem));
}

#[tokio::test]
async fn proofs_may_be_demanded() {
    let bed = bed();
    let authority = bed.issuer.jwt().dpop(Dpop::required());
    let challenge = format!("DPoP {METADATA}, {ALGS}");
    assert_eq!(UserAgentSession::nobody().challenge(&authority).await, (401, challenge.clone()));
    for _ in 0..2 {
        let verdict =
            UserAgentSession::bearer(&bed.issuer.good_token()).challenge(&authority).await;
        let problem = "Only tokens that are bound to a key are accepted: use DPoP";
        assert_eq!(verdict, refused("invalid_token", problem));
    }
    // If DPoP is optional, both schemes are announced, the more common one first.
    let authority = bed.issuer.jwt().dpop(Dpop::accepted());
    let both = vec![format!("Bearer {METADATA}"), challenge];
    assert_eq!(UserAgentSession::nobody().refused(&authority).await, (401, both));
}

#[tokio::test]
async fn nonces_are_given_and_demanded() {
    let bed = bed();
    let dpop = Dpop::accepted().nonce_key(&[7; 32]);
    let authority = bed.issuer.jwt().dpop(dpop.clone());
    let mut claims = bed.prover.claims(&bed.token);
    let denied = bed.prover.session(&bed.token, &claims).request(&authority).await.unwrap_err();
    let problem = "The proof must contain the nonce of DPoP-Nonce";
    assert_eq!(crate::bed::challenges(&denied), [refused("use_dpop_nonce", problem).1]);
    let nonce = denied.headers["dpop-nonce"].to_str().unwrap().to_owned();
    // The rejected proof was not consumed.
    claims["nonce"] = json!(nonce);
    assert!(bed.prover.session(&bed.token, &claims).request(&authority).await.is_ok());
    // A process with the same key accepts it, one with another key does not.
    let other = bed.issuer.jwt().dpop(dpop);
    assert!(bed.prover.session(&bed.token, &claims).request(&other).await.is_ok());
    let foreign = bed.issuer.jwt().dpop(Dpop::accepted().nonces());
    for nonce in [&*nonce, "", "x", &b64([0; 40])] {
        claims["nonce"] = json!(nonce);
        let verdict = bed.prover.session(&bed.token, &claims).challenge(&foreign).await;
        assert_eq!(verdict, refused("use_dpop_nonce", problem), "{nonce}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_remembers_used_proofs_for_everybody() {
    let bed = bed();
    let used = std::sync::Arc::new(Memory::default());
    let authority = || bed.issuer.jwt().dpop(Dpop::accepted().store(used.clone()));
    let session = bed.prover.session(&bed.token, &bed.prover.claims(&bed.token));
    assert!(session.request(&authority()).await.is_ok());
    let verdict = session.challenge(&authority()).await;
    assert_eq!(verdict, bad_proof("The proof was used before"));
    let claims = used.0.lock().unwrap();
    assert_eq!(claims.len(), 1);
    let (name, ttl) = claims.iter().next().unwrap();
    assert!(name.starts_with("dpop:") && *ttl >= Duration::from_secs(90), "{name} {ttl:?}");
}

#[derive(Default)]
struct Memory(std::sync::Mutex<std::collections::HashMap<String, Duration>>);

impl wharf_model::NonceStore for Memory {
    fn claim(&self, nonce: &str, ttl: Duration) -> wharf_model::Stored<bool> {
        let fresh = self.0.lock().unwrap().insert(nonce.to_owned(), ttl).is_none();
        Box::pin(async move { Ok(fresh) })
    }
}

#[tokio::test]
async fn a_token_bound_to_a_certificate_needs_it() {
    let issuer = Issuer::new();
    let authority = issuer.jwt();
    let token = issuer.token_with("cnf", json!({"x5t#S256": b64(sha256(b"certificate"))}));
    let wrong = invalid_token("The token is bound to another client certificate");
    for _ in 0..2 {
        assert_eq!(UserAgentSession::bearer(&token).challenge(&authority).await, wrong);
        let other = UserAgentSession::bearer(&token).certificate(b"another");
        assert_eq!(other.challenge(&authority).await, wrong);
        let own = UserAgentSession::bearer(&token).certificate(b"certificate");
        assert!(own.request(&authority).await.is_ok());
    }
    // Both bindings.
    let prover = Prover::new();
    let both = json!({"jkt": prover.thumbprint(), "x5t#S256": b64(sha256(b"certificate"))});
    let token = issuer.token_with("cnf", both);
    let session = prover.session(&token, &prover.claims(&token));
    let (status, challenge) = session.challenge(&authority).await;
    assert!(status == 401 && challenge.contains("client certificate"), "{challenge}");
    let session = prover.session(&token, &prover.claims(&token)).certificate(b"certificate");
    assert!(session.request(&authority).await.is_ok());
}

/// With a guessable key, nonces could be precomputed.
#[tokio::test]
async fn a_short_key_for_nonces_is_not_taken() {
    let problems = |key: &[u8]| {
        let authority = Issuer::new().jwt().dpop(Dpop::required().nonce_key(key));
        wharf_model::Authenticator::problems(&authority)
    };
    for key in [&b""[..], b"secret", &[7; 31]] {
        let problems = problems(key);
        assert_eq!(problems.len(), 1, "{problems:?}");
        let told = format!("has {} bytes: use at least 32", key.len());
        assert!(problems[0].contains(&told), "{problems:?}");
    }
    assert_eq!(problems(&[7; 32]), Vec::<String>::new());
}
