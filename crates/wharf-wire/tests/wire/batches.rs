//! JSON-RPC batches.

use serde_json::json;
use wharf_wire::Received;

use crate::{
    common::*,
    http::{next, send, session},
};

#[test]
fn batches_exist_in_one_revision() {
    let batch = json!([
        request(1, "ping", json!({})),
        notification("x", json!({})),
        5,
        [],
        request(2, "tools/list", json!({}))
    ]);
    assert_eq!(error(receive(&mut connection(), &batch)).1, -32600);
    for version in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let mut connection = connection();
        open(&mut connection, version);
        let (message, code, status) = error(receive(&mut connection, &batch));
        assert_eq!((code, status, message.get("id")), (-32600, 400, None));
    }
    let mut connection = connection();
    open(&mut connection, "2025-03-26");
    let Received::Batch(each) = receive(&mut connection, &batch) else { panic!() };
    let [
        Received::Reply(..),
        Received::Ignore,
        Received::Reply(five, ..),
        Received::Reply(array, ..),
        Received::Call(..),
    ] = &each[..]
    else {
        panic!("{each:?}")
    };
    assert_eq!(parse(five)["error"]["code"], -32600);
    assert_eq!(parse(array)["error"]["code"], -32600);
    assert_eq!(error(receive(&mut connection, &json!([]))).1, -32600);
    let long = |count| json!(vec![request(1, "ping", json!({})); count]);
    assert!(matches!(receive(&mut connection, &long(1000)), Received::Batch(_)));
    assert_eq!(error(receive(&mut connection, &long(1001))).1, -32600);
    assert_eq!(error(connection.receive("[1,".into())).1, -32700);
    call(receive(&mut connection, &request(2, "tools/list", json!({}))));
}

#[test]
fn a_batch_with_initialize_or_a_modern_request_is_refused_as_a_whole() {
    for alone in [
        initialize("2025-03-26", json!({})),
        modern(4, "tools/list", json!({})),
        modern(4, "no/such", json!({})),
    ] {
        let mut connection = connection();
        open(&mut connection, "2025-03-26");
        let ready = notification("notifications/initialized", json!({}));
        let ping = request(1, "ping", json!({}));
        for batch in [json!([alone]), json!([ready, ping, alone]), json!([alone, ready, ping])] {
            let (message, code, status) = error(receive(&mut connection, &batch));
            assert_eq!((code, status, message.get("id")), (-32600, 400, None), "{batch}");
        }
        // Nothing was processed: the session's subscription has not started.
        let (_, codec) = call(receive(&mut connection, &ready));
        assert!(codec.is_silent());
    }
    // A notification named `initialize` opens no session.
    let mut connection = connection();
    open(&mut connection, "2025-03-26");
    let batch = json!([notification("initialize", json!({})), request(1, "ping", json!({}))]);
    assert!(matches!(receive(&mut connection, &batch), Received::Batch(each) if each.len() == 2));
}

#[test]
fn a_batch_without_requests_is_accepted_or_refused_as_a_whole() {
    let note = notification("notifications/x", json!({}));
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    let broken = json!({"jsonrpc": "2.0", "id": 1, "result": {}, "error": {}});
    for batch in [json!([answer]), json!([note, answer]), json!([broken, note]), json!([5])] {
        let (message, code, status) = error(send(&batch, &[]));
        assert_eq!((code, status, message.get("id")), (-32600, 400, None), "{batch}");
    }
    let (_, code, status) = error(next(&mut session("2025-03-26"), &json!([broken, note]), &[]));
    assert_eq!((code, status), (-32600, 400));
    let Received::Batch(each) = send(&json!([note, note]), &[]) else { panic!() };
    assert!(each.iter().all(|it| matches!(it, Received::Ignore)));
    // With a request, each message has its own reply.
    let mixed = json!([answer, request(2, "ping", json!({}))]);
    let Received::Batch(each) = send(&mixed, &[]) else { panic!() };
    assert!(matches!(&each[..], [Received::Reply(_, 400, _), Received::Reply(_, 200, _)]));
    let mixed = json!([answer, broken]);
    let Received::Batch(each) = next(&mut session("2025-03-26"), &mixed, &[]) else { panic!() };
    assert!(matches!(&each[..], [Received::Answer(1, Ok(_)), Received::Reply(_, 400, _)]));
}

#[test]
fn a_batch_with_initialize_or_a_modern_request_is_refused_over_http() {
    for refused in [
        initialize("2025-03-26", json!({})),
        modern(4, "tools/list", json!({})),
        request(4, "server/discover", json!({})),
    ] {
        for batch in [json!([refused]), json!([request(1, "ping", json!({})), refused])] {
            let (message, code, status) = error(send(&batch, &[]));
            assert_eq!((code, status, message.get("id")), (-32600, 400, None), "{batch}");
        }
    }
}
