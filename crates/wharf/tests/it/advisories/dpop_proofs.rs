//! DPoP (RFC 9449): a bound token is rejected without a proof of its key, at every entry point.

use http::{HeaderMap, Request, Response};
use hyper::body::Incoming;
use serde_json::{Value, json};
use wharf::auth::server::Dpop;

use wharf_testbed::fake_issuer::{Issuer, METADATA, Prover};

use crate::advisories::{
    harness::Harness,
    http_client::{self, HttpClient, LEGACY},
    web::{AnyBody, Events},
};

const ALGS: &str = r#"algs="ES256 ES384 EdDSA PS256 RS256""#;

/// Caller with a key and a token bound to it.
struct BoundCaller {
    harness: Harness,
    prover: Prover,
    token: String,
}

impl BoundCaller {
    async fn of(dpop: Dpop) -> BoundCaller {
        let (issuer, prover) = (Issuer::new(), Prover::new());
        let harness = Harness::tuned(|server| server.auth(issuer.jwt().dpop(dpop))).await;
        let token = issuer.token_with("cnf", json!({"jkt": prover.thumbprint()}));
        BoundCaller { harness, prover, token }
    }

    fn claims(&self, verb: &str) -> Value {
        let mut claims = self.prover.claims(&self.token);
        claims["htm"] = json!(verb);
        claims
    }

    /// Request with the token and a proof with these claims.
    fn with(&self, mut request: Request<AnyBody>, claims: &Value) -> Request<AnyBody> {
        let headers = request.headers_mut();
        headers.insert("authorization", format!("DPoP {}", self.token).parse().unwrap());
        headers.insert("dpop", self.prover.proof(claims).parse().unwrap());
        request
    }

    fn echo(&self, caller: &HttpClient) -> Request<AnyBody> {
        caller.post(&caller.tool("echo", json!({"text": "on"})))
    }
}

fn refused(response: &Response<Incoming>, error: &str, problem: &str) {
    assert_eq!(response.status(), 401, "{error}");
    let challenge =
        format!(r#"DPoP error="{error}", error_description="{problem}", {METADATA}, {ALGS}"#);
    let all: Vec<_> = response.headers().get_all("www-authenticate").into_iter().collect();
    assert_eq!(all, [&challenge]);
}

fn nonce(headers: &HeaderMap) -> Option<&str> {
    headers.get("dpop-nonce").map(|it| it.to_str().unwrap())
}

#[tokio::test]
async fn a_dpop_proof_is_accepted_once() {
    let owner = BoundCaller::of(Dpop::accepted()).await;
    let caller = HttpClient::modern(&owner.harness);
    let claims = owner.claims("POST");
    let response = caller.request(owner.with(owner.echo(&caller), &claims)).await;
    assert_eq!((response.status().as_u16(), nonce(response.headers())), (200, None));
    assert_eq!(http_client::text(&http_client::reply(response).await), "on");
    let again = caller.request(owner.with(owner.echo(&caller), &claims)).await;
    refused(&again, "invalid_dpop_proof", "The proof was used before");
    // A proof is valid only for the request that it was made for.
    let other = caller.request(owner.with(owner.echo(&caller), &owner.claims("GET"))).await;
    refused(&other, "invalid_dpop_proof", "The proof is for another method (htm)");
    // A stolen token without its key is useless.
    let mut bare = owner.with(owner.echo(&caller), &owner.claims("POST"));
    bare.headers_mut().remove("dpop");
    let bare = caller.request(bare).await;
    refused(&bare, "invalid_dpop_proof", "There is no proof: send one in the DPoP header");
    let thief = HttpClient { bearer: Some(owner.token.clone().leak()), ..caller };
    let bearer = thief.request(owner.echo(&thief)).await;
    let problem = "The token is bound to a key: send it with DPoP and a proof";
    refused(&bearer, "invalid_token", problem);
}

#[tokio::test]
async fn a_session_needs_a_proof_for_each_request() {
    let owner = BoundCaller::of(Dpop::required()).await;
    let mut caller = HttpClient { revision: LEGACY, ..HttpClient::modern(&owner.harness) };
    let opening = caller.post(&caller.initialize());
    let response = caller.request(owner.with(opening, &owner.claims("POST"))).await;
    assert_eq!(response.status(), 200);
    caller.session = response.headers().get(http_client::SESSION).cloned();
    http_client::reply(response).await;
    let claims = owner.claims("GET");
    let stream = caller.request(owner.with(caller.bare("GET"), &claims)).await;
    assert_eq!(stream.status(), 200);
    let _stream = Events::of(stream);
    let again = caller.request(owner.with(caller.bare("GET"), &claims)).await;
    refused(&again, "invalid_dpop_proof", "The proof was used before");
    let end = caller.request(owner.with(caller.bare("DELETE"), &claims)).await;
    refused(&end, "invalid_dpop_proof", "The proof is for another method (htm)");
    let end = caller.request(owner.with(caller.bare("DELETE"), &owner.claims("DELETE"))).await;
    assert_eq!(end.status(), 204);
}

#[tokio::test]
async fn a_nonce_is_asked_for_and_then_taken() {
    let owner = BoundCaller::of(Dpop::required().nonces()).await;
    let caller = HttpClient::modern(&owner.harness);
    let send = async |claims: &Value| caller.request(owner.with(owner.echo(&caller), claims)).await;
    let wants = "The proof must contain the nonce of DPoP-Nonce";
    let first = send(&owner.claims("POST")).await;
    refused(&first, "use_dpop_nonce", wants);
    let given = nonce(first.headers()).expect("a nonce").to_owned();
    let with = |nonce: &str| {
        let mut claims = owner.claims("POST");
        claims["nonce"] = json!(nonce);
        claims
    };
    let claims = with(&given);
    let response = send(&claims).await;
    assert_eq!(response.status(), 200);
    assert_eq!(http_client::text(&http_client::reply(response).await), "on");
    refused(&send(&claims).await, "invalid_dpop_proof", "The proof was used before");
    // A nonce is valid for several proofs, and a forged nonce is rejected.
    assert_eq!(send(&with(&given)).await.status(), 200);
    let mut forged = given.into_bytes();
    forged[0] ^= 1;
    let response = send(&with(&String::from_utf8(forged).unwrap())).await;
    refused(&response, "use_dpop_nonce", wants);
    assert!(nonce(response.headers()).is_some());
}
