//! Fairness: the calls of one caller do not block other callers.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
};

use crate::support::*;
use wharf_model::{ActiveCall, Event, Outcome};
use wharf_server::{CallLimits, Concurrency, RawArgs, Router, Tool};

/// A tool that waits for permits, and the number of its calls that have started.
fn slow() -> (Tool, Arc<tokio::sync::Semaphore>, Arc<AtomicUsize>) {
    let (permits, begun) =
        (Arc::new(tokio::sync::Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let (wait, count) = (permits.clone(), begun.clone());
    let tool = Tool::new("slow", move || {
        let wait = wait.clone();
        count.fetch_add(1, Ordering::SeqCst);
        async move {
            wait.acquire().await.unwrap().forget();
            "waited"
        }
    });
    (tool, permits, begun)
}

fn echo() -> Tool {
    Tool::inline("echo", || "echo")
}

/// Starts calls of one caller; returns those that wait or run, and the number rejected.
fn many(router: &Router, name: &str, count: usize) -> (Vec<ActiveCall>, usize) {
    let mut going = Vec::new();
    let mut refused = 0;
    for _ in 0..count {
        let mut active_call = start(router, by(call("slow", "{}"), name));
        match poll(&mut active_call) {
            Poll::Pending => going.push(active_call),
            Poll::Ready(Event::Done(outcome)) => {
                let error = error(outcome);
                assert!(error.kind.is_overloaded());
                assert!(error.data.unwrap()["retryAfterMs"].as_u64().unwrap() > 0);
                refused += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    (going, refused)
}

/// The outcome of a call that must not wait.
fn at_once(router: &Router, name: &str) -> Outcome {
    match poll(&mut start(router, by(call("echo", "{}"), name))) {
        Poll::Ready(Event::Done(outcome)) => outcome,
        other => panic!("{name} waits: {other:?}"),
    }
}

#[tokio::test]
async fn a_new_caller_is_served_at_once_despite_five_thousand_slow_calls() {
    for layered in [false, true] {
        let (tool, permits, begun) = slow();
        let router = Router::builder().add(tool).add(echo());
        let router = match layered {
            true => router
                .limits(CallLimits::default().concurrent(usize::MAX))
                .layer(Concurrency::new(1024, 4096)),
            false => router,
        };
        let router = router.build().unwrap();
        let (going, refused) = many(&router, "hog", 5_000);
        assert_eq!((going.len(), refused), (768 + 3072, 5_000 - 768 - 3072));
        assert_eq!(begun.load(Ordering::SeqCst), 768);
        assert_eq!(text(at_once(&router, "alice")), "echo");
        // A few more such callers cannot block a new caller either.
        let more: Vec<_> = (0..4).map(|n| many(&router, &format!("hog{n}"), 2_000)).collect();
        assert_eq!(text(at_once(&router, "alice")), "echo");
        drop(more);
        permits.add_permits(going.len());
        for active_call in going {
            assert_eq!(text(done(active_call).await), "waited");
        }
        let (again, _) = many(&router, "hog", 5_000);
        assert_eq!(again.len(), 768 + 3072, "all slots are free again");
    }
}

#[tokio::test]
async fn callers_with_queued_calls_take_turns() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let seen = order.clone();
    let note = Tool::new("note", move |RawArgs(json): RawArgs| {
        seen.lock().unwrap().push(json.get().to_owned());
        std::future::ready("noted")
    });
    let (tool, permits, _) = slow();
    let limits = CallLimits::default().concurrent(1).queue(64);
    let router = Router::builder().limits(limits).add(tool).add(note).build().unwrap();
    let (inside, _) = many(&router, "hog", 1);
    let waiting = |name: &str, count: usize| -> Vec<_> {
        (0..count)
            .map(|n| {
                let arguments = format!(r#"{{"{name}":{n}}}"#);
                let mut active_call = start(&router, by(call("note", &arguments), name));
                assert!(poll(&mut active_call).is_pending());
                active_call
            })
            .collect()
    };
    let mut line = waiting("a", 5);
    line.extend(waiting("b", 2));
    line.extend(waiting("c", 1));
    drop(line.remove(1));
    permits.add_permits(1);
    let calls = inside.into_iter().chain(line.into_iter().rev());
    let calls: Vec<_> = calls.map(|it| tokio::spawn(done(it))).collect();
    for call in calls {
        call.await.unwrap();
    }
    let expected = [("a", 0), ("b", 0), ("c", 0), ("a", 2), ("b", 1), ("a", 3), ("a", 4)]
        .map(|(name, n)| format!(r#"{{"{name}":{n}}}"#));
    assert_eq!(*order.lock().unwrap(), expected);
}

#[tokio::test]
async fn a_queue_filled_by_one_caller_accepts_others() {
    let (tool, permits, begun) = slow();
    let limits = CallLimits::default().concurrent(1).queue(8);
    let router = Router::builder().limits(limits).add(tool).build().unwrap();
    let (hogs, refused) = many(&router, "hog", 20);
    assert_eq!((hogs.len(), refused), (1 + 6, 13));
    let (alices, refused) = many(&router, "alice", 1);
    assert_eq!((alices.len(), refused), (1, 0));
    // One call runs, and the queued calls run in turns by caller.
    permits.add_permits(3);
    let hogs: Vec<_> = hogs.into_iter().map(|it| tokio::spawn(done(it))).collect();
    for alice in alices {
        assert_eq!(text(done(alice).await), "waited");
    }
    permits.add_permits(5);
    for hog in hogs {
        assert_eq!(text(hog.await.unwrap()), "waited");
    }
    assert_eq!(begun.load(Ordering::SeqCst), 8);
}

#[tokio::test]
async fn callers_on_this_machine_may_have_every_place() {
    let (tool, _permits, begun) = slow();
    let limits = CallLimits::default().concurrent(8).queue(4);
    let router = Router::builder().limits(limits).add(tool).build().unwrap();
    let mut calls: Vec<_> = (0..13).map(|_| start(&router, call("slow", "{}"))).collect();
    let waiting = calls.iter_mut().filter_map(|it| poll(it).is_pending().then_some(())).count();
    assert_eq!((begun.load(Ordering::SeqCst), waiting), (8, 12));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn slots_are_neither_lost_nor_duplicated() {
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (count, highest) = (inside.clone(), most.clone());
    let tool = Tool::new("slow", move || {
        let (count, highest) = (count.clone(), highest.clone());
        async move {
            highest.fetch_max(count.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            count.fetch_sub(1, Ordering::SeqCst);
        }
    });
    let limits = CallLimits::default().concurrent(8).queue(100_000);
    let router = Router::builder().limits(limits).add(tool).build().unwrap();
    let callers = ["a", "b", "c", "d", "e", "f", "g"];
    let calls: Vec<_> = (0..3_000)
        .map(|n| {
            let active_call = start(&router, by(call("slow", "{}"), callers[n % 7]));
            tokio::spawn(async move {
                match n % 5 {
                    0 => drop(active_call),
                    _ => drop(done(active_call).await),
                }
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    assert!((1..=8).contains(&most.load(Ordering::SeqCst)), "{most:?}");
    assert_eq!(inside.load(Ordering::SeqCst), 0);
    let mut last: Vec<_> = (0..8).map(|_| start(&router, call("slow", "{}"))).collect();
    assert!(last.iter_mut().all(|it| poll(it).is_pending()));
    assert_eq!(inside.load(Ordering::SeqCst), 8, "all slots are free again");
}

#[tokio::test]
async fn blocking_calls_of_one_caller_leave_threads_for_others() {
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Mutex::new(blocked);
    let limits = CallLimits::default().blocking(8);
    let router = Router::builder()
        .limits(limits)
        .add(Tool::blocking("slow", move || {
            let _ = blocked.lock().unwrap().recv();
            "waited"
        }))
        .add(Tool::blocking("echo", || "echo"))
        .build()
        .unwrap();
    let (going, refused) = many(&router, "hog", 10);
    assert_eq!((going.len(), refused), (6, 4));
    assert_eq!(text(done(start(&router, by(call("echo", "{}"), "alice"))).await), "echo");
    drop(release);
    for active_call in going {
        assert_eq!(text(done(active_call).await), "waited");
    }
}
