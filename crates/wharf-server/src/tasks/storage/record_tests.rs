//! Property tests: the invariants of a record hold after any sequence of changes.

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
enum RecordAction {
    Wait(u64),
    Claim(u8),
    Renew(u8),
    Release(u8, u64),
    Lapse(u64),
    Fail,
    Ask(u8, u8, u8),
    Withdraw(u8, u8),
    Answer(u8),
    Report(u8, u8),
    Finish(u8),
    Cancel,
}

fn actions() -> impl Strategy<Value = Vec<RecordAction>> {
    let node = 0..3_u8;
    let key = 0..3_u8;
    let action = prop_oneof![
        3 => (0..50_u64).prop_map(RecordAction::Wait),
        4 => node.clone().prop_map(RecordAction::Claim),
        3 => node.clone().prop_map(RecordAction::Renew),
        1 => (node.clone(), 0..40_u64).prop_map(|(node, delay)| RecordAction::Release(node, delay)),
        1 => (0..40_u64).prop_map(RecordAction::Lapse),
        1 => Just(RecordAction::Fail),
        4 => (node.clone(), key.clone(), 0..2_u8).prop_map(|(n, k, q)| RecordAction::Ask(n, k, q)),
        1 => (node.clone(), key.clone()).prop_map(|(node, key)| RecordAction::Withdraw(node, key)),
        3 => key.prop_map(RecordAction::Answer),
        2 => (node.clone(), 0..9_u8).prop_map(|(node, at)| RecordAction::Report(node, at)),
        1 => node.prop_map(RecordAction::Finish),
        1 => Just(RecordAction::Cancel),
    ];
    prop::collection::vec(action, 0..60)
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
        ended_trace: None,
    };
    TaskRecord::new("id".into(), String::new(), call, 1000, 5000)
}

fn question(number: u8) -> (String, ClientRequest) {
    let form = ElicitForm::new(format!("question {number}"), json!({"type": "object"}));
    (format!("fingerprint {number}"), ClientRequest::Elicit(Box::new(form)))
}

/// Model of the state outside the record.
#[derive(Default)]
struct RecordModel {
    now: u64,
    /// Fence that each node last claimed the task with.
    fences: BTreeMap<u8, u64>,
    /// Actual holder.
    holder: Option<u8>,
    /// Fingerprint of the first request of each key.
    asked: BTreeMap<String, String>,
    answered: BTreeSet<String>,
}

impl RecordModel {
    fn fence(&self, node: u8) -> u64 {
        self.fences.get(&node).copied().unwrap_or(0)
    }

    fn apply(
        &mut self,
        action: &RecordAction,
        record: &mut TaskRecord,
    ) -> Option<(u8, ChangeResult)> {
        let now = self.now;
        let change = match *action {
            RecordAction::Wait(time) => {
                self.now += time;
                return None;
            }
            RecordAction::Claim(node) => {
                let claim = TaskClaim { node: node.to_string(), lease: LEASE };
                let change = record.claim(&claim, now);
                if change.is_ok() {
                    self.fences.insert(node, record.fence);
                    self.holder = Some(node);
                }
                return None;
            }
            RecordAction::Lapse(delay) => {
                if record.lapse(delay, now).is_ok() {
                    self.holder = None;
                }
                return None;
            }
            RecordAction::Fail => {
                let _ = record.fail(&Error::new(ErrorKind::TaskFailed), now);
                return None;
            }
            RecordAction::Answer(key) => {
                let open = record.open.iter().any(|it| it.key == key.to_string());
                let said = ClientResponse::Result(to_raw_value(&json!({"n": now})).unwrap());
                let _ = record.answer(&BTreeMap::from([(key.to_string(), said)]), now);
                if open {
                    assert!(self.answered.insert(key.to_string()), "answered twice");
                }
                return None;
            }
            RecordAction::Cancel => {
                let _ = record.cancel(now);
                return None;
            }
            RecordAction::Renew(node) => (node, record.renew(self.fence(node), LEASE, now)),
            RecordAction::Release(node, delay) => {
                let change = record.release(self.fence(node), delay, true, now);
                if change.is_ok() {
                    self.holder = None;
                    return None;
                }
                (node, change)
            }
            RecordAction::Ask(node, key, number) => {
                let (fingerprint, ask) = question(number);
                let key = key.to_string();
                let asked = (key.as_str(), fingerprint.as_str());
                let change = record.ask(self.fence(node), asked, &ask, MOST, now);
                if change.is_ok() {
                    let first = self.asked.entry(key).or_insert_with(|| fingerprint.clone());
                    assert_eq!(*first, fingerprint, "a key is used for two requests");
                }
                (node, change)
            }
            RecordAction::Withdraw(node, key) => {
                (node, record.withdraw(self.fence(node), &key.to_string(), now))
            }
            RecordAction::Report(node, at) => {
                let update = ProgressUpdate { progress: at.into(), total: None, message: None };
                (node, record.report(self.fence(node), &update, now))
            }
            RecordAction::Finish(node) => {
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
    fn invariants_hold_after_any_sequence_of_changes(actions in actions()) {
        let (mut record, mut model) = (record(), RecordModel { now: 1000, ..RecordModel::default() });
        for action in actions {
            let before = record.clone();
            let was_holder = model.holder;
            let by_holder = model.apply(&action, &mut record);
            if before.end.is_some() {
                prop_assert_eq!(json_of(&before), json_of(&record), "terminal is final: {:?}", action);
            }
            if let Some((node, change)) = by_holder {
                if was_holder != Some(node) {
                    prop_assert!(change.is_err(), "a stale fence changes nothing: {:?}", action);
                }
                if change != Ok(RecordChanged::Yes) {
                    prop_assert_eq!(json_of(&before), json_of(&record), "refused: {:?}", action);
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
                prop_assert_eq!(&model.asked[key], &answer.question);
            }
        }
        // A record is decoded as it was encoded.
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
