//! Parsing of `WWW-Authenticate`.

use proptest::prelude::*;
use wharf_auth::client::Challenge;

/// Parsed challenge: scheme, token68, parameters.
type Read = (String, Option<String>, Vec<(String, String)>);

fn read(headers: &[&str]) -> Vec<Read> {
    let challenges = Challenge::parse(headers.iter().copied());
    challenges.into_iter().map(|it| (it.scheme, it.token68, it.params)).collect()
}

/// Expected challenge: scheme, token68, parameters.
type Expected<'a> = (&'a str, Option<&'a str>, &'a [(&'a str, &'a str)]);

#[test]
fn challenges_are_read_as_they_are_written() {
    let cases: &[(&[&str], &[Expected<'_>])] = &[
        (&[""], &[]),
        (&["Bearer"], &[("Bearer", None, &[])]),
        (&["Basic realm=\"a, b\""], &[("Basic", None, &[("realm", "a, b")])]),
        (
            &[
                "Newauth realm=\"apps\", type=1, title=\"Login to \\\"apps\\\"\", Basic realm=\"simple\"",
            ],
            &[
                (
                    "Newauth",
                    None,
                    &[("realm", "apps"), ("type", "1"), ("title", "Login to \"apps\"")],
                ),
                ("Basic", None, &[("realm", "simple")]),
            ],
        ),
        (
            &["Negotiate, Bearer scope=\"a b\"", "DPoP algs=\"ES256\""],
            &[
                ("Negotiate", None, &[]),
                ("Bearer", None, &[("scope", "a b")]),
                ("DPoP", None, &[("algs", "ES256")]),
            ],
        ),
        (
            &["Negotiate YII/+w==, Bearer error=invalid_token"],
            &[
                ("Negotiate", Some("YII/+w=="), &[]),
                ("Bearer", None, &[("error", "invalid_token")]),
            ],
        ),
        (
            &["Bearer realm = \"x\" ,, , SCOPE=\ty"],
            &[("Bearer", None, &[("realm", "x"), ("scope", "y")])],
        ),
        (
            &["Bearer resource_metadata=https://a.example/x?y=z, scope=q"],
            &[(
                "Bearer",
                None,
                &[("resource_metadata", "https://a.example/x?y=z"), ("scope", "q")],
            )],
        ),
        (&["Bearer scope=\"no end"], &[("Bearer", None, &[("scope", "no end")])]),
        (&["realm=\"x\", Bearer"], &[("Bearer", None, &[])]),
        (&["\"quoted, Bearer x=y\", Basic"], &[("Basic", None, &[])]),
        (&["Bearer \\"], &[("Bearer", None, &[])]),
        (&["Bearer a=\"\\"], &[("Bearer", None, &[("a", "")])]),
    ];
    for (headers, expected) in cases {
        let expected: Vec<_> = expected
            .iter()
            .map(|(scheme, token68, params)| {
                let params = params.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned()));
                ((*scheme).to_owned(), token68.map(str::to_owned), params.collect::<Vec<_>>())
            })
            .collect();
        assert_eq!(read(headers), expected, "{headers:?}");
    }
}

#[test]
fn long_headers_are_parsed_to_a_limit() {
    for piece in ["a=\"", "Bearer ", "Bearer a=b, ", ",", "\\", "\"", "a b ", "=", "é"] {
        let long = piece.repeat(1 << 20);
        let read = read(&[&long, &long]);
        assert!(read.len() <= 32 && read.iter().all(|it| it.2.len() <= 32), "{piece}");
    }
}

/// Quotes a string.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

proptest! {
    #[test]
    fn arbitrary_challenges_do_not_panic(headers in prop::collection::vec(any::<String>(), 0..4)) {
        let _ = Challenge::parse(headers.iter().map(String::as_str));
    }

    #[test]
    fn mutated_challenges_do_not_panic(text in "[ ,=\"\\\\a-cé]{0,64}") {
        let _ = Challenge::parse([text.as_str()]);
    }

    #[test]
    fn written_challenges_are_parsed(
        challenges in prop::collection::vec(
            (
                "[A-Za-z][A-Za-z0-9-]{0,8}",
                prop::collection::vec(("[a-z][a-z0-9_]{0,8}", "[ -~]{0,20}"), 1..5),
            ),
            1..5,
        )
    ) {
        let text: Vec<_> = challenges.iter().map(|(scheme, params)| {
            let params: Vec<_> =
                params.iter().map(|(name, value)| format!("{name}={}", quoted(value))).collect();
            format!("{scheme} {}", params.join(", "))
        }).collect();
        let read = Challenge::parse([text.join(", ").as_str()]);
        let read: Vec<_> = read.into_iter().map(|it| (it.scheme, it.params)).collect();
        prop_assert_eq!(read, challenges);
    }
}
