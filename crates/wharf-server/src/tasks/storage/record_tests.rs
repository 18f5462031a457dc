//! Whatever is done to a task, in whatever order: what must never happen does not.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{json, value::to_raw_value};
use wharf_model::{
    ClientCapabilities, ClientRequest, ElicitForm, Error, ErrorKind, TaskStatus, ToolResult,
};

use crate::tasks::storage::record::*;

const LEASE: u64 = 30;
const MOST: usize = 4;

#[derive(Clone, Debug)]
enum Deed {
    Wait(u64),
    TaskClaim(u8),
    Renew(u8),
    OnCallEnd(u8, u64),
    Lapse(u64),
    GiveUp,
    ClientRequest(u8, u8, u8),
    Withdraw(u8, u8),
    StoredResponse(u8),
    Report(u8, u8),
    Finish(u8),
    Cancel,
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let node = 0..3_u8;
    let key = 0..3_u8;
    let deed = prop_oneof![
        3 => (0..50_u64).prop_map(Deed::Wait),
        4 => node.clone().prop_map(Deed::TaskClaim),
        3 => node.clone().prop_map(Deed::Renew),
        1 => (node.clone(), 0..40_u64).prop_map(|(node, delay)| Deed::OnCallEnd(node, delay)),
        1 => (0..40_u64).prop_map(Deed::Lapse),
        1 => Just(Deed::GiveUp),
        4 => (node.clone(), key.clone(), 0..2_u8).prop_map(|(n, k, q)| Deed::ClientRequest(n, k, q)),
        1 => (node.clone(), key.clone()).prop_map(|(node, key)| Deed::Withdraw(node, key)),
        3 => key.prop_map(Deed::StoredResponse),
        2 => (node.clone(), 0..9_u8).prop_map(|(node, at)| Deed::Report(node, at)),
        1 => node.prop_map(Deed::Finish),
        1 => Just(Deed::Cancel),
    ];
    prop::collection::vec(deed, 0..60)
}

fn record() -> TaskRecord {
    let call = SavedCall {
        tool: "t".into(),
        arguments: to_raw_value(&json!({})).unwrap(),
        meta: None,
        client: None,
        capabilities: ClientCapabilities::default(),
        principal: None,
        roles: Vec::new(),
        nonce: None,
    };
    TaskRecord::new("id".into(), String::new(), call, 1000, 5000)
}

fn question(number: u8) -> (String, ClientRequest) {
    let form = ElicitForm::new(format!("question {number}"), json!({"type": "object"}));
    (format!("fingerprint {number}"), ClientRequest::Elicit(Box::new(form)))
}

/// What the world knows beside the record.
#[derive(Default)]
struct World {
    now: u64,
    /// The fence by which each node believes to hold the task.
    fences: BTreeMap<u8, u64>,
    /// Who really holds it.
    holder: Option<u8>,
    /// What each key stood for when it was first asked.
    asked: BTreeMap<String, String>,
    answered: BTreeSet<String>,
}

impl World {
    fn fence(&self, node: u8) -> u64 {
        self.fences.get(&node).copied().unwrap_or(0)
    }

    fn apply(&mut self, deed: &Deed, record: &mut TaskRecord) -> Option<(u8, ChangeResult)> {
        let now = self.now;
        let change = match *deed {
            Deed::Wait(time) => {
                self.now += time;
                return None;
            }
            Deed::TaskClaim(node) => {
                let claim = TaskClaim { node: node.to_string(), lease: LEASE };
                let change = record.claim(&claim, now);
                if change.is_ok() {
                    self.fences.insert(node, record.fence);
                    self.holder = Some(node);
                }
                return None;
            }
            Deed::Lapse(delay) => {
                if record.lapse(delay, now).is_ok() {
                    self.holder = None;
                }
                return None;
            }
            Deed::GiveUp => {
                let _ = record.fail(&Error::new(ErrorKind::TaskFailed), now);
                return None;
            }
            Deed::StoredResponse(key) => {
                let open = record.open.iter().any(|it| it.key == key.to_string());
                let said = ClientResponse::Result(to_raw_value(&json!({"n": now})).unwrap());
                let _ = record.answer(&BTreeMap::from([(key.to_string(), said)]), now);
                if open {
                    assert!(self.answered.insert(key.to_string()), "answered twice");
                }
                return None;
            }
            Deed::Cancel => {
                let _ = record.cancel(now);
                return None;
            }
            Deed::Renew(node) => (node, record.renew(self.fence(node), LEASE, now)),
            Deed::OnCallEnd(node, delay) => {
                let change = record.release(self.fence(node), delay, true, now);
                if change.is_ok() {
                    self.holder = None;
                    return None;
                }
                (node, change)
            }
            Deed::ClientRequest(node, key, number) => {
                let (fingerprint, ask) = question(number);
                let key = key.to_string();
                let asked = (key.as_str(), fingerprint.as_str());
                let change = record.ask(self.fence(node), asked, &ask, MOST, now);
                if change.is_ok() {
                    let first = self.asked.entry(key).or_insert_with(|| fingerprint.clone());
                    assert_eq!(*first, fingerprint, "a key stands for two questions");
                }
                (node, change)
            }
            Deed::Withdraw(node, key) => {
                (node, record.withdraw(self.fence(node), &key.to_string(), now))
            }
            Deed::Report(node, at) => {
                let update = ProgressUpdate { progress: at.into(), total: None, message: None };
                (node, record.report(self.fence(node), &update, now))
            }
            Deed::Finish(node) => {
                let end = TaskEnd::Completed(Box::new(ToolResult::text(node.to_string())));
                (node, record.finish(self.fence(node), &end, now))
            }
        };
        Some(change)
    }
}

fn json_of(record: &TaskRecord) -> serde_json::Value {
    json!([record, record.fence, record.due])
}

proptest! {
    #[test]
    fn what_must_never_happen_does_not(deeds in deeds()) {
        let (mut record, mut world) = (record(), World { now: 1000, ..World::default() });
        for deed in deeds {
            let before = record.clone();
            let was_holder = world.holder;
            let by_holder = world.apply(&deed, &mut record);
            if before.end.is_some() {
                prop_assert_eq!(json_of(&before), json_of(&record), "terminal is final: {:?}", deed);
            }
            if let Some((node, change)) = by_holder {
                if was_holder != Some(node) {
                    prop_assert!(change.is_err(), "a stale fence changes nothing: {:?}", deed);
                }
                if change != Ok(RecordChanged::Yes) {
                    prop_assert_eq!(json_of(&before), json_of(&record), "refused: {:?}", deed);
                }
            }
            prop_assert!(record.fence >= before.fence);
            let status = record.task(1).status();
            prop_assert_eq!(status == TaskStatus::InputRequired,
                record.end.is_none() && !record.open.is_empty());
            prop_assert_eq!(record.due.is_none(), record.end.is_some());
            for open in &record.open {
                prop_assert!(!record.answers.contains_key(&open.key));
            }
            for (key, answer) in &record.answers {
                prop_assert_eq!(&world.asked[key], &answer.question);
            }
        }
        // What is kept is what comes back.
        let kept = serde_json::to_string(&record).unwrap();
        let back: TaskRecord = serde_json::from_str(&kept).unwrap();
        prop_assert_eq!(serde_json::to_string(&back).unwrap(), kept);
    }
}

#[test]
fn attempts_count_unless_the_task_is_given_back_without_fault() {
    let mut record = record();
    let claim = TaskClaim { node: "n".into(), lease: LEASE };
    assert_eq!(record.claim(&claim, 1000), Ok(RecordChanged::Yes));
    assert_eq!(record.claim(&claim, 1000), Err(ChangeRejection::Early));
    assert_eq!(record.release(1, 0, false, 1001), Ok(RecordChanged::Yes));
    assert_eq!(record.attempts, 0);
    assert_eq!(record.claim(&claim, 1001), Ok(RecordChanged::Yes));
    assert_eq!(record.release(record.fence, 5, true, 1002), Ok(RecordChanged::Yes));
    assert_eq!((record.attempts, record.due), (1, Some(1007)));
}
