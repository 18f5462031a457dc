//! Valid histories have no violations, and invalid ones are detected.

use super::*;

const GRACE: Duration = Duration::from_secs(1);

fn seen(status: &str, text: &str, since: usize) -> TaskEvent {
    TaskEvent::Seen(TaskView { since, status: status.into(), text: text.into() })
}

fn ran(value: &str) -> TaskEvent {
    TaskEvent::Ran { step: "step-0".into(), value: value.into(), by: "n".into() }
}

fn kept(value: &str) -> TaskEvent {
    TaskEvent::Kept { step: "step-0".into(), value: value.into(), by: "n".into() }
}

fn problems(events: Vec<TaskEvent>) -> Vec<String> {
    let history = History::default();
    for (index, event) in events.into_iter().enumerate() {
        history.add(index as u64 * 10_000, "al-1", event);
    }
    history.problems(GRACE)
}

const DONE: &str = r#"{"owner":"al","steps":["a"],"answer":null}"#;

#[test]
fn valid_histories_have_no_problems() {
    let none: [String; 0] = [];
    let story = vec![
        TaskEvent::Acknowledged,
        ran("x"),
        seen("working", "", 1),
        ran("a"),
        kept("a"),
        kept("a"),
        seen("completed", DONE, 5),
        // Requested before the end was seen, answered after.
        seen("working", "", 5),
        TaskEvent::Cancelled { too_late: true },
    ];
    assert_eq!(problems(story), none);
    let cancelled = vec![
        TaskEvent::Acknowledged,
        TaskEvent::Cancelled { too_late: false },
        seen("cancelled", "", 2),
    ];
    assert_eq!(problems(cancelled), none);
}

#[test]
fn invalid_histories_are_detected() {
    let leak = TaskEvent::Wrong("others were told".into());
    let cancel = TaskEvent::Cancelled { too_late: false };
    let answered =
        |word: &str, acknowledged| TaskEvent::Answered { word: word.into(), acknowledged };
    let heard = |word: &str| TaskEvent::Heard { answer: word.into(), by: "n".into() };
    for (name, story, problem) in [
        ("no end", vec![TaskEvent::Acknowledged, seen("working", "", 1)], "never ended"),
        ("two ends", vec![seen("failed", "", 0), seen("cancelled", "", 0)], "end changed"),
        ("alive again", vec![seen("failed", "", 0), seen("working", "", 1)], "end changed"),
        ("other result", vec![seen("failed", "a", 0), seen("failed", "b", 1)], "end changed"),
        ("again", vec![ran("a"), kept("a"), ran("b")], "ran again"),
        ("other value", vec![ran("a"), ran("b"), kept("a"), kept("b")], "another value"),
        ("from nowhere", vec![ran("a"), kept("b")], "nobody made"),
        ("after a cancel", vec![cancel.clone(), ran("a")], "long after"),
        ("not cancelled", vec![cancel, seen("failed", "", 1)], "is cancelled, but"),
        ("not called off", vec![TaskEvent::CalledOff, seen("working", "", 1)], "is over, but"),
        ("after calling off", vec![TaskEvent::CalledOff, ran("a")], "long after"),
        ("two answers", vec![heard("a"), heard("b")], "more than one answer"),
        (
            "a later answer",
            vec![answered("a", false), answered("b", true), answered("c", true), heard("c")],
            "instead of one of",
        ),
        ("leak", vec![leak], "others were told"),
        ("wrong result", vec![ran("b"), kept("b"), seen("completed", DONE, 2)], "does not fit"),
        ("another's result", vec![seen("completed", &DONE.replace("al", "bo"), 0)], "is another's"),
    ] {
        let found = problems(story);
        assert!(found.iter().any(|it| it.contains(problem)), "{name}: {found:?}");
    }
}
