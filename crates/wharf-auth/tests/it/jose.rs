//! JOSE test vectors of the RFCs, and tokens that must be rejected.

use serde_json::{Value, json};
use wharf_auth::jose::{
    Algorithm, JoseError, Jwk, JwkSet, MAX_TOKEN, SigningKey, UnverifiedToken, b64,
    constant_time_eq, random_token, sha256, unb64,
};

const RSA: &str = include_str!("../keys/rsa.pem");
const RSA_OLD: &str = include_str!("../keys/rsa-pkcs1.pem");
const P256: &str = include_str!("../keys/p256.pem");
const P256_OLD: &str = include_str!("../keys/p256-sec1.pem");
const P384_OLD: &str = include_str!("../keys/p384-sec1.pem");
const ED25519: &str = include_str!("../keys/ed25519.pem");

const PAYLOAD: &str = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";

fn jwk(value: Value) -> Jwk {
    serde_json::from_value(value).unwrap()
}

fn rfc7515_rsa() -> Jwk {
    jwk(
        json!({"kty": "RSA", "e": "AQAB", "n": "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"}),
    )
}

fn rfc7515_curve() -> Jwk {
    jwk(json!({
        "kty": "EC",
        "crv": "P-256",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
    }))
}

#[test]
fn rfc7515_a2() {
    let token = format!(
        "eyJhbGciOiJSUzI1NiJ9.{PAYLOAD}.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"
    );
    let parsed = UnverifiedToken::parse(&token).unwrap();
    let claims = parsed.verify(&rfc7515_rsa(), &[Algorithm::RS256]).unwrap();
    assert_eq!((claims.text("iss"), claims.time("exp")), (Some("joe"), Some(1_300_819_380)));
    assert_eq!(
        parsed.verify(&rfc7515_rsa(), &[Algorithm::PS256]),
        Err(JoseError::AlgorithmNotAllowed)
    );
    assert_eq!(parsed.verify(&rfc7515_curve(), Algorithm::ALL), Err(JoseError::WrongKey));
}

#[test]
fn rfc7515_a3() {
    let signature =
        "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
    let token = format!("eyJhbGciOiJFUzI1NiJ9.{PAYLOAD}.{signature}");
    let verified = UnverifiedToken::parse(&token).unwrap().verify(&rfc7515_curve(), Algorithm::ALL);
    assert_eq!(verified.unwrap().text("iss"), Some("joe"));
    // An all-zero signature, which some libraries once accepted.
    let token = format!("eyJhbGciOiJFUzI1NiJ9.{PAYLOAD}.{}", b64([0; 64]));
    let verified = UnverifiedToken::parse(&token).unwrap().verify(&rfc7515_curve(), Algorithm::ALL);
    assert_eq!(verified, Err(JoseError::BadSignature));
}

#[test]
fn rfc7638() {
    let key = jwk(
        json!({"kty": "RSA", "e": "AQAB", "alg": "RS256", "kid": "2011-04-29", "n": "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"}),
    );
    assert_eq!(key.thumbprint(), "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs");
}

#[test]
fn rfc8037() {
    let x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
    let key = jwk(json!({"kty": "OKP", "crv": "Ed25519", "x": x}));
    assert_eq!(key.thumbprint(), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
    // The private key of the same appendix, wrapped as OpenSSL does.
    let mut pkcs8 = vec![0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
    pkcs8.extend(unb64("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A").unwrap());
    let private = SigningKey::from_pkcs8(&pkcs8, Algorithm::EdDSA).unwrap();
    assert_eq!(private.public_jwk().thumbprint(), key.thumbprint());
    let token = private.sign(&Value::Null, &json!({"a": 1})).unwrap();
    assert!(token.starts_with("eyJhbGciOiJFZERTQSJ9."));
    assert!(UnverifiedToken::parse(&token).unwrap().verify(&key, &[Algorithm::EdDSA]).is_ok());
    // The signed payload of the appendix is not JSON.
    let token = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
    assert_eq!(UnverifiedToken::parse(token).err(), Some(JoseError::Malformed));
}

#[test]
fn every_algorithm_and_every_file_format() {
    let keys = [
        (RSA, Algorithm::RS256),
        (RSA, Algorithm::RS384),
        (RSA, Algorithm::RS512),
        (RSA, Algorithm::PS256),
        (RSA, Algorithm::PS384),
        (RSA_OLD, Algorithm::PS512),
        (RSA_OLD, Algorithm::RS256),
        (P256, Algorithm::ES256),
        (P256_OLD, Algorithm::ES256),
        (P384_OLD, Algorithm::ES384),
        (ED25519, Algorithm::EdDSA),
    ];
    for (pem, algorithm) in keys {
        let key = SigningKey::from_pem(pem, algorithm).unwrap();
        let again = SigningKey::from_pkcs8(key.to_pkcs8(), algorithm).unwrap();
        assert_eq!(key.public_jwk(), again.public_jwk());
        let header = json!({"typ": "at+jwt", "kid": "k", "alg": "none"});
        let token = again.sign(&header, &json!({"sub": "alice"})).unwrap();
        let parsed = UnverifiedToken::parse(&token).unwrap();
        assert_eq!(parsed.header.algorithm, algorithm, "the header's own algorithm does not count");
        assert!(parsed.header.is_type("at+jwt") && parsed.header.kid.as_deref() == Some("k"));
        assert!(parsed.verify(&key.public_jwk(), &[algorithm]).is_ok(), "{algorithm:?}");
        // Every bit of the signature and of the signed data counts.
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let mut broken = unb64(signature).unwrap();
        broken[5] ^= 1;
        let broken = format!("{signed}.{}", b64(broken));
        let parsed = UnverifiedToken::parse(&broken).unwrap();
        assert_eq!(parsed.verify(&key.public_jwk(), &[algorithm]), Err(JoseError::BadSignature));
        let other = format!("{}.{}.{signature}", token.split('.').next().unwrap(), b64("{}"));
        let parsed = UnverifiedToken::parse(&other).unwrap();
        assert_eq!(parsed.verify(&key.public_jwk(), &[algorithm]), Err(JoseError::BadSignature));
        // `Debug` omits the key.
        assert_eq!(format!("{key:?}"), format!("SigningKey {{ algorithm: {algorithm:?}, .. }}"));
    }
    assert!(SigningKey::from_pem(P256, Algorithm::RS256).is_err());
    assert!(SigningKey::from_pem(RSA, Algorithm::ES256).is_err());
    assert!(SigningKey::from_pem(P256_OLD, Algorithm::EdDSA).is_err());
    let unreadable = [
        SigningKey::from_pem("nonsense", Algorithm::ES256),
        SigningKey::from_pkcs8(b"", Algorithm::RS256),
    ];
    for error in unreadable.map(Result::unwrap_err) {
        assert!(std::error::Error::source(&error).is_some(), "{error:?}");
    }
}

#[test]
fn none_and_hmac_are_rejected() {
    let claims = b64(json!({"sub": "mallory"}).to_string());
    for name in ["none", "None", "NONE", "nOnE", "HS256", "HS512", "", "es256", "A128KW"] {
        let token = format!("{}.{claims}.", b64(json!({"alg": name}).to_string()));
        assert_eq!(
            UnverifiedToken::parse(&token).err(),
            Some(JoseError::UnknownAlgorithm),
            "{name}"
        );
    }
    // The public key as HMAC secret (algorithm confusion): HMAC is not supported.
    let header = b64(json!({"alg": "HS256", "typ": "JWT"}).to_string());
    let token = format!("{header}.{claims}.{}", b64(sha256(RSA.as_bytes())));
    assert_eq!(UnverifiedToken::parse(&token).err(), Some(JoseError::UnknownAlgorithm));
    assert!(Jwk::from_json(&json!({"kty": "oct", "k": "AAAA"})).is_err());
}

#[test]
fn duplicate_members_are_rejected() {
    let parse = |header: &str, claims: &str| {
        let token = format!("{}.{}.AAAA", b64(header), b64(claims));
        UnverifiedToken::parse(&token).map(drop)
    };
    let (header, claims) = (r#"{"alg":"ES256"}"#, r#"{"sub":"alice","aud":["a","a"]}"#);
    assert_eq!(parse(header, claims), Ok(()));
    for (header, claims) in [
        (header, r#"{"sub":"alice","sub":"mallory"}"#),
        (header, r#"{"aud":"a","exp":1,"\u0061ud":"b"}"#),
        (r#"{"alg":"ES256","alg":"RS256"}"#, claims),
        (r#"{"alg":"ES256","kid":"1","kid":"1"}"#, claims),
        (header, "[]"),
    ] {
        assert_eq!(parse(header, claims), Err(JoseError::Malformed), "{header} {claims}");
    }
}

#[test]
fn critical_extensions_are_rejected() {
    let key = SigningKey::generate().unwrap();
    for crit in [json!(["b64"]), json!([]), json!("exp")] {
        let token = key.sign(&json!({"crit": crit, "b64": false}), &json!({})).unwrap();
        assert_eq!(UnverifiedToken::parse(&token).err(), Some(JoseError::Critical));
    }
}

#[test]
fn sizes_are_bounded() {
    let key = SigningKey::generate().unwrap();
    let token = key.sign(&Value::Null, &json!({"a": "x".repeat(MAX_TOKEN)})).unwrap();
    assert_eq!(UnverifiedToken::parse(&token).err(), Some(JoseError::TooLong));
    let deep = format!("{}.{}.AA", b64(r#"{"alg":"ES256"}"#), b64("[".repeat(9000)));
    assert_eq!(UnverifiedToken::parse(&deep).err(), Some(JoseError::Malformed));
}

#[test]
fn foreign_keys_never_panic() {
    let key = SigningKey::generate().unwrap();
    let token = key.sign(&Value::Null, &json!({})).unwrap();
    let parsed = UnverifiedToken::parse(&token).unwrap();
    // Points that are not on the curve; degenerate exponents and moduli.
    for (x, y) in [([0; 32], [0; 32]), ([255; 32], [255; 32]), ([1; 32], [2; 32])] {
        let odd = json!({"kty": "EC", "crv": "P-256", "x": b64(x), "y": b64(y)});
        assert_eq!(parsed.verify(&jwk(odd), Algorithm::ALL), Err(JoseError::BadSignature));
    }
    let rsa = SigningKey::from_pem(RSA, Algorithm::RS256).unwrap();
    let token = rsa.sign(&Value::Null, &json!({})).unwrap();
    let parsed = UnverifiedToken::parse(&token).unwrap();
    for (n, e) in
        [(vec![2; 256], vec![1]), (vec![255; 1024], vec![255; 8]), (vec![1; 256], vec![3])]
    {
        let odd = jwk(json!({"kty": "RSA", "n": b64(n), "e": b64(e)}));
        assert_eq!(parsed.verify(&odd, Algorithm::ALL), Err(JoseError::BadSignature));
    }
    let broken = [
        json!({"kty": "RSA", "n": b64([255; 128]), "e": "AQAB"}),
        json!({"kty": "RSA", "n": b64([255; 1025]), "e": "AQAB"}),
        json!({"kty": "RSA", "n": b64([0; 256]), "e": "AQAB"}),
        json!({"kty": "RSA", "n": b64([255; 256]), "e": ""}),
        json!({"kty": "RSA"}),
        json!({"kty": "EC", "crv": "P-256", "x": b64([1; 31]), "y": b64([1; 32])}),
        json!({"kty": "EC", "crv": "P-521", "x": b64([1; 66]), "y": b64([1; 66])}),
        json!({"kty": "EC", "crv": "P-256", "x": "!", "y": "!"}),
        json!({"kty": "OKP", "crv": "X25519", "x": b64([1; 32])}),
        json!({"kty": 7}),
        json!([]),
        json!(null),
    ];
    for value in &broken {
        assert!(Jwk::from_json(value).is_err(), "{value}");
    }
    // A key set skips them.
    let mut keys = broken.to_vec();
    keys.push(serde_json::to_value(key.public_jwk()).unwrap());
    let set: JwkSet = serde_json::from_value(json!({"keys": keys, "more": 1})).unwrap();
    assert_eq!(set.keys, [key.public_jwk()]);
}

#[test]
fn key_use_and_algorithm_are_checked() {
    let key = SigningKey::generate().unwrap();
    let token = key.sign(&Value::Null, &json!({})).unwrap();
    let parsed = UnverifiedToken::parse(&token).unwrap();
    let verdict = |member: &str, value: Value| {
        let mut public = serde_json::to_value(key.public_jwk()).unwrap();
        public[member] = value;
        parsed.verify(&jwk(public), Algorithm::ALL).err()
    };
    assert_eq!(verdict("use", json!("sig")), None);
    assert_eq!(verdict("use", json!("enc")), Some(JoseError::WrongKey));
    assert_eq!(verdict("alg", json!("ES384")), Some(JoseError::WrongKey));
    assert_eq!(verdict("alg", json!("ECDH-ES")), Some(JoseError::WrongKey));
    assert_eq!(verdict("key_ops", json!(["verify"])), None);
    assert_eq!(verdict("key_ops", json!(["sign"])), Some(JoseError::WrongKey));
    let mut private = serde_json::to_value(key.public_jwk()).unwrap();
    assert!(!jwk(private.clone()).had_private_parts());
    private["d"] = json!("AAAA");
    let private = jwk(private);
    assert!(private.had_private_parts());
    assert!(serde_json::to_value(&private).unwrap().get("d").is_none());
}

#[test]
fn malformed_tokens() {
    let good = b64(r#"{"alg":"ES256"}"#);
    for token in [
        "",
        ".",
        "..",
        "...",
        "a.b.c",
        "eyJhbGciOiJFUzI1NiJ9",
        &format!("{good}.{}", b64("{}")),
        &format!("{good}.{}.AA.AA", b64("{}")),
        &format!("{good}.{}.A=", b64("{}")),
        &format!("{good}=.{}.AA", b64("{}")),
        &format!("{good}.{}.AA", b64("[]")),
        &format!("{good}.{}.AA", b64("\"x\"")),
        &format!("{}.{}.AA", b64("[]"), b64("{}")),
        &format!("{}.{}.AA", b64("{}"), b64("{}")),
        &format!("{}.{}.AA", b64(r#"{"alg":7}"#), b64("{}")),
        &format!("{good}.{}.AA", b64([0xff, 0xfe])),
        &format!(" {good}.{}.AA", b64("{}")),
        "é.é.é",
    ] {
        assert_eq!(UnverifiedToken::parse(token).err(), Some(JoseError::Malformed), "{token}");
    }
}

#[test]
fn claims_of_odd_types() {
    let key = SigningKey::generate().unwrap();
    let claims = json!({
        "exp": 1.9e9, "nbf": -5, "iat": "soon", "far": 1e300, "aud": ["a", 1, "b"], "one": "a",
    });
    let token = key.sign(&Value::Null, &claims).unwrap();
    let claims = UnverifiedToken::parse(&token).unwrap().claims;
    assert_eq!(claims.time("exp"), Some(1_900_000_000));
    assert_eq!((claims.time("nbf"), claims.time("iat"), claims.time("far")), (None, None, None));
    assert_eq!((claims.texts("aud"), claims.texts("one")), (vec!["a", "b"], vec!["a"]));
    assert!(claims.texts("exp").is_empty() && claims.texts("none").is_empty());
    assert!(!format!("{claims:?}").contains("soon"));
    assert_eq!(key.sign(&json!([]), &json!({})), Err(JoseError::Malformed));
    assert_eq!(key.sign(&Value::Null, &json!([])), Err(JoseError::Malformed));
}

#[test]
fn encoding_helpers() {
    assert!(
        constant_time_eq(b"abc", b"abc")
            && !constant_time_eq(b"abc", b"abd")
            && !constant_time_eq(b"abc", b"ab")
    );
    assert_ne!(random_token(16), random_token(16));
    assert_eq!(random_token(32).len(), 43);
    assert_eq!(b64(&sha256(b"abc")[..3]), "ungW");
    assert!(unb64("a+b/").is_err());
}
