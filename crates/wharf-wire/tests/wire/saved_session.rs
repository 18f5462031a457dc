//! Sessions that another process continues.

use std::sync::Arc;

use crate::common::*;
use serde_json::{Value, json};
use wharf_model::{ChangeVersion, Error, ErrorKind, LogLevel};
use wharf_wire::{Connection, Received};

fn subscribe(connection: &mut Connection, verb: &str, uri: &str) {
    let message = request(1, &format!("resources/{verb}"), json!({ "uri": uri }));
    assert_eq!(reply(receive(connection, &message)).1, 200);
}

fn make_ready(connection: &mut Connection, since: u64) {
    let initialized = notification("notifications/initialized", json!({}));
    assert!(matches!(receive(connection, &initialized), Received::Call(..)));
    connection.postpone_listen(ChangeVersion::at(since));
}

fn restore_copy(connection: &Connection) -> Connection {
    Connection::restored(Arc::new(wire()), &connection.save().unwrap(), "name").unwrap()
}

#[test]
fn client_info_is_restored_in_every_process() {
    let capabilities = json!({
        "roots": {"listChanged": true},
        "sampling": {"tools": {}},
        "elicitation": {"url": {}},
        "tasks": {"list": {}},
        "extensions": {"com.example/x": {"a": 1}},
        "experimental": {"y": {}},
    });
    for version in LEGACY {
        let mut here = connection();
        open_with(&mut here, version, capabilities.clone(), discovery());
        let mut there = restore_copy(&here);
        let list = request(1, "tools/list", json!({}));
        let (here, _) = call(receive(&mut here, &list));
        let (there, _) = call(receive(&mut there, &list));
        assert_eq!(**here.peer(), **there.peer(), "{version}");
        assert_eq!((here.peer().name(), there.peer().name()), (None, Some("name")));
    }
}

#[test]
fn changes_of_the_client_are_saved_and_counted() {
    let mut here = connection();
    open(&mut here, "2025-11-25");
    let before = here.edits();
    assert!(before == 0 && restore_copy(&here).restart_listen().is_none());
    make_ready(&mut here, 7);
    subscribe(&mut here, "subscribe", "a:1");
    subscribe(&mut here, "subscribe", "a:2");
    subscribe(&mut here, "unsubscribe", "a:1");
    receive(&mut here, &request(1, "logging/setLevel", json!({"level": "alert"})));
    receive(&mut here, &notification("notifications/roots/list_changed", json!({})));
    assert_eq!(here.edits(), 6);
    receive(&mut here, &request(1, "ping", json!({})));
    receive(&mut here, &request(1, "tools/list", json!({})));
    assert_eq!(here.edits(), 6);
    let mut there = restore_copy(&here);
    let (request, _) = call(receive(&mut there, &request(1, "tools/list", json!({}))));
    assert_eq!((request.log_level, request.peer().roots_generation()), (Some(LogLevel::Alert), 1));
    for _ in 0..2 {
        let (listen, codec) = there.restart_listen().unwrap();
        assert!(codec.is_silent());
        assert_eq!(listen.since, Some(ChangeVersion::at(7)));
        let heard = listen.filter.as_ref().unwrap().read(Clone::clone);
        assert!(heard.tools && !heard.prompts);
        assert_eq!(heard.uris.into_iter().collect::<Vec<_>>(), ["a:2"]);
    }
}

#[test]
fn a_running_listen_gets_the_subscriptions_that_other_processes_saved() {
    let mut here = connection();
    open(&mut here, "2025-11-25");
    make_ready(&mut here, 7);
    let mut there = restore_copy(&here);
    let (listen, _) = there.restart_listen().unwrap();
    subscribe(&mut here, "subscribe", "a:1");
    there.mark_delivered_until(ChangeVersion::at(9));
    there.catch_up(&here.save().unwrap());
    assert!(listen.filter.as_ref().unwrap().read(|filter| filter.uris.contains("a:1")));
    // Tasks that one process follows are followed by all.
    let (also, _) = here.restart_listen().unwrap();
    also.filter.as_ref().unwrap().edit(|filter| filter.tasks.insert("task".into()));
    listen.filter.as_ref().unwrap().edit(|filter| filter.tasks.insert("other".into()));
    there.catch_up(&here.save().unwrap());
    assert_eq!(listen.filter.as_ref().unwrap().read(|filter| filter.tasks.len()), 2);
    // The delivered version is never lost, nor reset by a process that delivered less.
    assert_eq!(there.restart_listen().unwrap().0.since, Some(ChangeVersion::at(9)));
}

#[test]
fn a_change_that_could_not_be_saved_is_undone() {
    let mut here = connection();
    open(&mut here, "2025-11-25");
    let saved = here.save().unwrap();
    make_ready(&mut here, 7);
    subscribe(&mut here, "subscribe", "a:1");
    here.catch_up(&saved);
    assert_eq!(here.save().unwrap(), saved);
    // The client may repeat the message.
    let edits = here.edits();
    make_ready(&mut here, 8);
    assert!(here.edits() > edits);
}

#[test]
fn only_an_open_session_is_saved_and_only_a_saved_one_is_restored() {
    let mut fresh = connection();
    assert!(fresh.save().is_none());
    let _begun = receive(&mut fresh, &initialize("2025-11-25", json!({})));
    assert!(fresh.save().is_none());
    for text in ["", "{}", "null", r#"{"revision":"1999-01-01"}"#] {
        assert!(Connection::restored(Arc::new(wire()), text.as_bytes(), "name").is_none());
    }
}

#[test]
fn an_error_reply_can_be_written_from_the_id_alone() {
    let mut here = connection();
    open(&mut here, "2025-11-25");
    let mut out = Vec::new();
    restore_copy(&here).fail("\"seven\"", &Error::new(ErrorKind::InternalError), &mut out);
    let reply: Value = parse(&out);
    assert_eq!((&reply["id"], &reply["error"]["code"]), (&json!("seven"), &json!(-32603)));
}
