//! JWT access tokens.

use std::time::{Duration, UNIX_EPOCH};

use http::Method;
use serde_json::{Value, json};
use wharf_auth::{
    jose::{Algorithm, Claims, SigningKey, b64},
    server::Jwt,
};
use wharf_model::{AuthRequest, Authenticator, Error, ErrorKind, Principal, RequestExtensions};

use wharf_testbed::fake_issuer::{
    ISSUER, Issuer, METADATA, SERVER, TestRequest, good, invalid_token, now,
};

#[tokio::test]
async fn a_valid_token_is_accepted() {
    let issuer = Issuer::new();
    let authenticator = issuer.jwt();
    for _ in 0..3 {
        let pass =
            TestRequest::bearer(&issuer.good_token()).authenticate(&authenticator).await.unwrap();
        assert_eq!(pass.principal.id(), "https://id.example alice");
        let scopes: Vec<&str> = pass.principal.scopes().collect();
        assert_eq!(scopes, ["files:read", "files:write"]);
        let left = pass.until.unwrap().duration_since(UNIX_EPOCH).unwrap().as_secs() - now();
        assert!((599..=600).contains(&left), "{left}");
        assert_eq!(pass.extensions.get::<Claims>().unwrap().text("sub"), Some("alice"));
    }
    // One metadata request and one JWKS request.
    assert_eq!(issuer.asked().len(), 2);
}

#[tokio::test]
async fn without_a_token_there_is_a_challenge_and_no_error() {
    let authenticator = Issuer::new().jwt();
    assert_eq!(
        TestRequest::without_token().challenge(&authenticator).await,
        (401, format!("Bearer {METADATA}"))
    );
    let authenticator = Issuer::new().jwt().scope("mcp").scope("more");
    let challenge = format!(r#"Bearer scope="mcp more", {METADATA}"#);
    assert_eq!(
        TestRequest::without_token().challenge(&authenticator).await,
        (401, challenge.clone())
    );
    // Other schemes count as no token.
    let basic = TestRequest::without_token().header("authorization", "Basic YTpi");
    assert_eq!(basic.challenge(&authenticator).await, (401, challenge));
}

#[tokio::test]
async fn malformed_requests_are_reported() {
    let issuer = Issuer::new();
    let authenticator = issuer.jwt();
    let good = issuer.good_token();
    let malformed = |problem: &str| {
        let text =
            format!(r#"Bearer error="invalid_request", error_description="{problem}", {METADATA}"#);
        (400, text)
    };
    let requests = [
        ("Bearer", "The Authorization header is malformed"),
        ("Bearer ", "The Authorization header is malformed"),
        ("bearer ===", "The Authorization header is malformed"),
        ("Bearer a b", "The Authorization header is malformed"),
        ("Bearer a, Bearer b", "The Authorization header is malformed"),
        ("Bearer \"a\"", "The Authorization header is malformed"),
    ];
    for (header, problem) in requests {
        let request = TestRequest::without_token().header("authorization", header);
        assert_eq!(request.challenge(&authenticator).await, malformed(problem), "{header}");
    }
    let twice = TestRequest::bearer(&good).header("authorization", &format!("Bearer {good}"));
    let problem = "There is more than one Authorization header";
    assert_eq!(twice.challenge(&authenticator).await, malformed(problem));
    let long = TestRequest::bearer(&"a".repeat(17 << 10));
    assert_eq!(long.challenge(&authenticator).await, malformed("The token is too long"));
    // A token in the URL is rejected, also beside a valid header, and in every encoding.
    let problem = "Tokens in the URL are not accepted: send it in the Authorization header";
    for query in ["access_token=x", "a=b&access_token=x", "access%5Ftoken=x", "access_token"] {
        let uri = format!("/mcp?{query}");
        let request = TestRequest::without_token().uri(&uri);
        assert_eq!(request.challenge(&authenticator).await, malformed(problem), "{query}");
        let request = TestRequest::bearer(&good).uri(&uri);
        assert_eq!(request.challenge(&authenticator).await, malformed(problem), "{query}");
    }
    assert!(
        TestRequest::bearer(&good).uri("/mcp?session=x").authenticate(&authenticator).await.is_ok()
    );
}

#[tokio::test]
async fn invalid_tokens_are_rejected() {
    let issuer = Issuer::new();
    let authenticator = issuer.jwt();
    let foreign = SigningKey::generate().unwrap();
    let header = json!({"kid": "one"});
    let unsigned =
        |header: Value| format!("{}.{}.", b64(header.to_string()), b64(good().to_string()));
    let with = |name, value| issuer.token_with(name, value);
    let cases = [
        ("abc".to_owned(), "The token is malformed"),
        ("a.b.c".to_owned(), "The token is malformed"),
        (unsigned(json!({"alg": "none"})), "The token's algorithm is not supported"),
        (unsigned(json!({"alg": "HS256"})), "The token's algorithm is not supported"),
        (
            unsigned(json!({"alg": "ES256", "crit": ["exp"]})),
            "The token needs extensions that are not supported",
        ),
        (with("exp", json!(now() - 31)), "The token has expired"),
        (with("exp", json!(-1)), "The token has expired"),
        (with("exp", json!("tomorrow")), "The token's exp is not a time"),
        (with("exp", Value::Null), "The token does not expire"),
        (with("nbf", json!(now() + 100)), "The token is not valid yet"),
        (with("nbf", json!([])), "The token's nbf is not a time"),
        (with("iat", json!(now() + 100)), "The token was issued in the future"),
        (with("aud", json!("https://other.example/mcp")), "The token is for another audience"),
        (with("aud", json!("https://mcp.example")), "The token is for another audience"),
        (with("aud", json!("https://mcp.example/mcp/")), "The token is for another audience"),
        (with("aud", json!("https://mcp.example/mcp2")), "The token is for another audience"),
        (with("aud", json!([])), "The token is for another audience"),
        (with("aud", json!({"a": SERVER})), "The token is for another audience"),
        (with("aud", Value::Null), "The token is for another audience"),
        (with("iss", json!("https://id.example/")), "The token is from another issuer"),
        (with("iss", json!("https://ID.example")), "The token is from another issuer"),
        (with("iss", json!(["https://id.example"])), "The token is from another issuer"),
        (with("iss", Value::Null), "The token is from another issuer"),
        (with("sub", Value::Null), "The token has no subject"),
        (with("sub", json!("")), "The token has no subject"),
        (with("cnf", json!({"kid": "x"})), "The token has an unsupported binding (cnf)"),
        (with("cnf", json!("x")), "The token has an unsupported binding (cnf)"),
        (foreign.sign(&header, &good()).unwrap(), "The token's signature is wrong"),
        (
            foreign.sign(&json!({"kid": "?"}), &good()).unwrap(),
            "The token is signed with an unknown key",
        ),
    ];
    for (token, problem) in cases {
        let result = TestRequest::bearer(&token).challenge(&authenticator).await;
        assert_eq!(result, invalid_token(problem));
        // Twice: a rejected token is not cached as valid.
        let result = TestRequest::bearer(&token).challenge(&authenticator).await;
        assert_eq!(result, invalid_token(problem));
    }
}

#[tokio::test]
async fn clocks_may_differ_a_little() {
    let issuer = Issuer::new();
    let authenticator = issuer.jwt();
    for (name, time) in [("exp", now() - 20), ("nbf", now() + 20), ("iat", now() + 20)] {
        let token = issuer.token_with(name, json!(time));
        assert!(TestRequest::bearer(&token).authenticate(&authenticator).await.is_ok(), "{name}");
    }
    let strict = issuer.jwt().skew(Duration::ZERO);
    let token = issuer.token_with("exp", json!(now() - 1));
    assert!(TestRequest::bearer(&token).authenticate(&strict).await.is_err());
    // The clock skew is bounded.
    let lax = issuer.jwt().skew(Duration::from_secs(1_000_000));
    let token = issuer.token_with("exp", json!(now() - 301));
    assert!(TestRequest::bearer(&token).authenticate(&lax).await.is_err());
}

#[tokio::test]
async fn audiences_may_be_several() {
    let issuer = Issuer::new();
    let token = issuer.token_with("aud", json!(["https://other.example", SERVER]));
    assert!(TestRequest::bearer(&token).authenticate(&issuer.jwt()).await.is_ok());
    let authenticator = issuer.jwt().and_audience("api");
    let token = issuer.token_with("aud", json!("api"));
    assert!(TestRequest::bearer(&token).authenticate(&authenticator).await.is_ok());
    // The trailing slash of a root URL is optional.
    let root = Jwt::issuer(ISSUER).audience("https://mcp.example").download(issuer.clone());
    for audience in ["https://mcp.example", "https://mcp.example/"] {
        let token = issuer.token_with("aud", json!(audience));
        assert!(TestRequest::bearer(&token).authenticate(&root).await.is_ok(), "{audience}");
    }
}

#[tokio::test]
async fn only_access_tokens_are_accepted() {
    let issuer = Issuer::new();
    let authenticator = issuer.jwt();
    let key = issuer.rotate("two");
    let mut identity = good();
    identity.as_object_mut().unwrap().remove("scope");
    identity["nonce"] = json!("n");
    let mut hashed = good();
    hashed["at_hash"] = json!("h");
    let mut named = good();
    named["typ"] = json!("ID");
    let mut used = good();
    used["token_use"] = json!("id");
    let mut refresh = good();
    refresh["token_use"] = json!("refresh");
    let access = json!({"kid": "two", "typ": "at+jwt"});
    let jwt = json!({"kid": "two", "typ": "JWT"});
    for (header, claims) in [
        (&json!({"kid": "two", "typ": "dpop+jwt"}), &good()),
        (&json!({"kid": "two", "typ": "logout+jwt"}), &good()),
        (&json!({"kid": "two", "typ": "oauth-id-jag+jwt"}), &good()),
        (&jwt, &identity),
        (&jwt, &hashed),
        (&jwt, &named),
        (&jwt, &used),
        (&access, &used),
        (&access, &refresh),
    ] {
        let token = key.sign(header, claims).unwrap();
        let result = TestRequest::bearer(&token).challenge(&authenticator).await;
        assert_eq!(result, invalid_token("The token is not an access token"), "{header} {claims}");
    }
    for typ in ["at+jwt", "application/at+jwt", "JWT", "jwt", "AT+JWT"] {
        let token = key.sign(&json!({"kid": "two", "typ": typ}), &good()).unwrap();
        assert!(TestRequest::bearer(&token).authenticate(&authenticator).await.is_ok(), "{typ}");
    }
    let token = key.sign(&json!({"kid": "two"}), &good()).unwrap();
    assert!(TestRequest::bearer(&token).authenticate(&authenticator).await.is_ok());
}

#[tokio::test]
async fn algorithms_are_listed() {
    let issuer = Issuer::new();
    let authenticator = issuer.jwt().algorithms([Algorithm::RS256]);
    let result = TestRequest::bearer(&issuer.good_token()).challenge(&authenticator).await;
    assert_eq!(result, invalid_token("The token's algorithm is not allowed"));
}

#[tokio::test]
async fn scopes_that_every_request_needs() {
    let issuer = Issuer::new();
    let authenticator = issuer.jwt().scope("mcp").scope("files:read");
    let result = TestRequest::bearer(&issuer.good_token()).challenge(&authenticator).await;
    let challenge = format!(
        r#"Bearer error="insufficient_scope", scope="files:read files:write mcp", error_description="Insufficient scope: this needs mcp files:read", {METADATA}"#
    );
    assert_eq!(result, (403, challenge));
    let token = issuer.token_with("scope", json!("mcp files:read"));
    assert!(TestRequest::bearer(&token).authenticate(&authenticator).await.is_ok());
    // Scopes include others transitively, and cycles are harmless.
    let authenticator = issuer.jwt().scope("mcp").scope("files:read");
    let authenticator = authenticator.implies("admin", "files").implies("files", "files:read");
    let authenticator = authenticator.implies("admin", "mcp").implies("mcp", "admin");
    let token = issuer.token_with("scope", json!("admin"));
    let pass = TestRequest::bearer(&token).authenticate(&authenticator).await.unwrap();
    assert!(pass.principal.has_scope("files:read") && pass.principal.has_scope("mcp"));
}

#[tokio::test]
async fn scopes_and_roles_are_read_as_issuers_write_them() {
    let issuer = Issuer::new();
    let authenticator = issuer.jwt().roles("realm_access.roles");
    let scopes = async |claims: Value| {
        let mut all = good();
        all.as_object_mut().unwrap().remove("scope");
        all.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
        let pass =
            TestRequest::bearer(&issuer.token(&all)).authenticate(&authenticator).await.unwrap();
        let roles: Vec<String> = pass.principal.roles().map(str::to_owned).collect();
        (pass.principal.scopes().map(str::to_owned).collect::<Vec<_>>(), roles)
    };
    let none: [&str; 0] = [];
    assert_eq!(scopes(json!({"scp": ["a", "b c"]})).await.0, ["a", "b", "c"]);
    assert_eq!(scopes(json!({"scp": "a b"})).await.0, ["a", "b"]);
    assert_eq!(scopes(json!({"scope": ["a"], "scp": "x"})).await.0, ["a"]);
    assert_eq!(scopes(json!({"scope": 7})).await.0, none);
    assert_eq!(scopes(json!({"realm_access": {"roles": ["r", 1]}})).await.1, ["r"]);
    assert_eq!(scopes(json!({"realm_access": "r"})).await.1, none);
    assert_eq!(scopes(json!({"realm_access": {"roles": "r"}})).await.1, ["r"]);
}

#[tokio::test]
async fn principals_of_two_issuers_differ() {
    let issuer = Issuer::new();
    issuer.respond_with(
        "https://id.example/.well-known/oauth-authorization-server/tenant",
        json!({"issuer": "https://id.example/tenant", "jwks_uri": "https://id.example/t/keys"}),
    );
    let authenticator = issuer.jwt().and_issuer("https://id.example/tenant");
    let id = async |name: &str, value: Value, subject: Value| {
        let mut claims = good();
        claims["iss"] = value;
        claims.as_object_mut().unwrap().remove("sub");
        claims[name] = subject;
        let pass =
            TestRequest::bearer(&issuer.token(&claims)).authenticate(&authenticator).await.unwrap();
        pass.principal.id().to_owned()
    };
    let tenant = "https://id.example/tenant";
    let ids = [
        id("sub", json!(ISSUER), json!("alice")).await,
        id("sub", json!(tenant), json!("alice")).await,
        id("sub", json!(ISSUER), json!("/tenant alice")).await,
        id("sub", json!(ISSUER), json!("\talice")).await,
        id("client_id", json!(ISSUER), json!("alice")).await,
        id("azp", json!(ISSUER), json!(" alice")).await,
    ];
    let different: std::collections::BTreeSet<&String> = ids.iter().collect();
    assert_eq!(different.len(), ids.len(), "{ids:?}");
}

#[tokio::test]
async fn a_cached_token_expires() {
    let issuer = Issuer::new();
    let authenticator = issuer.jwt().skew(Duration::ZERO);
    let token = issuer.token_with("exp", json!(now() + 2));
    assert!(TestRequest::bearer(&token).authenticate(&authenticator).await.is_ok());
    // The only test that sleeps: the system clock cannot be paused.
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    let result = TestRequest::bearer(&token).challenge(&authenticator).await;
    assert_eq!(result, invalid_token("The token has expired"));
}

#[tokio::test]
async fn insufficient_scope_challenges_are_complete() {
    let issuer = Issuer::new();
    let authenticator = issuer.jwt().scope("mcp").implies("files:write", "files:read");
    let (method, uri) = (Method::POST, "/mcp".parse().unwrap());
    let headers = TestRequest::bearer("x").headers;
    let scope = RequestExtensions::new();
    let request = AuthRequest::new(&method, &uri, &headers, &scope);
    let alice = Principal::new("alice");
    let alice = alice.with_scope("mcp").with_scope("files:write").with_scope("files:read");
    let alice = alice.with_scope("offline_access");
    let error = Error::insufficient_scope(["files:delete", "audit"]);
    assert_eq!(
        authenticator.denied(&error, &request, &alice),
        [&*format!(
            r#"Bearer error="insufficient_scope", scope="files:write mcp files:delete audit", error_description="Insufficient scope: this needs files:delete audit", {METADATA}"#
        )]
    );
    let forbidden = authenticator.denied(&ErrorKind::Forbidden.into(), &request, &alice);
    assert_eq!(forbidden, [&*format!("Bearer {METADATA}")]);
}

#[test]
fn configuration_errors_are_reported() {
    let problems = |jwt: Jwt| jwt.problems().len();
    assert_eq!(problems(Jwt::issuer(ISSUER).audience(SERVER)), 0);
    assert_eq!(problems(Jwt::issuer("http://localhost:9000").audience(SERVER)), 0);
    assert_eq!(problems(Jwt::issuer(ISSUER).audience("api").resource(SERVER)), 0);
    assert_eq!(problems(Jwt::issuer(ISSUER).audience("api")), 1);
    assert_eq!(problems(Jwt::issuer(ISSUER).audience("").resource(SERVER)), 1);
    for issuer in [
        "",
        "id.example",
        "http://id.example",
        "https://id.example?a",
        "https://i.example#a",
        "https://id. example",
        "https://id.example\t",
    ] {
        assert_eq!(problems(Jwt::issuer(issuer).audience(SERVER)), 1, "{issuer:?}");
    }
}
