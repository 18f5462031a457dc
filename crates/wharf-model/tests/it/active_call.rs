//! Life of a call in the view of its transport, with a manual clock.

use std::{
    future::{Future, poll_fn},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use wharf_model::{
    ActiveCall, BoxFuture, ClientRequest, Deadlines, Error, ErrorKind, Event, LogLevel, Method,
    Notification, OnCallEnd, Outbox, Outcome, Reply, Request, RequestBuilder, Service, Timer,
    ToolResult,
};

/// Clock that only the test advances.
#[derive(Clone)]
struct ManualClock(Arc<Mutex<Instant>>);

impl ManualClock {
    fn new() -> Self {
        ManualClock(Arc::new(Mutex::new(Instant::now())))
    }

    fn advance(&self, seconds: u64) {
        *self.0.lock().unwrap() += Duration::from_secs(seconds);
    }
}

impl Timer for ManualClock {
    fn now(&self) -> Instant {
        *self.0.lock().unwrap()
    }

    fn sleep_until(&self, deadline: Instant) -> BoxFuture<()> {
        let clock = self.clone();
        Box::pin(poll_fn(
            move |_| if clock.now() >= deadline { Poll::Ready(()) } else { Poll::Pending },
        ))
    }
}

/// Service made of one async function over the outbox.
struct FnService<F>(F);

impl<F, Fut> Service for FnService<F>
where
    F: Fn(Outbox) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Outcome> + Send + 'static,
{
    fn call(&self, _request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        Box::pin((self.0)(outbox))
    }
}

fn start<F, Fut>(method: Method, clock: &ManualClock, run: F) -> ActiveCall
where
    F: Fn(Outbox) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Outcome> + Send + 'static,
{
    let request = RequestBuilder::new(method).target("t").build();
    ActiveCall::start(&FnService(run), request, Arc::new(clock.clone()), Deadlines::default())
}

fn next(call: &mut ActiveCall) -> Poll<Event> {
    call.poll_event(&mut Context::from_waker(Waker::noop()))
}

fn progress(value: f64) -> Notification {
    Notification::Progress { progress: value, total: None, message: None }
}

fn done() -> Outcome {
    ToolResult::text("done").into()
}

fn tool_error(event: Poll<Event>) -> String {
    match event {
        Poll::Ready(Event::Done(Outcome::Complete(Reply::Tool(result)))) if result.is_error => {
            result.content[0].as_text().unwrap().to_owned()
        }
        other => panic!("expected an isError result, got {other:?}"),
    }
}

#[test]
fn messages_are_delivered_before_the_outcome_even_in_one_poll() {
    let mut call = start(Method::CallTool, &ManualClock::new(), |outbox| async move {
        outbox.notify(progress(1.0));
        outbox.notify(progress(2.0));
        done()
    });
    assert!(matches!(next(&mut call), Poll::Ready(Event::Notify(_))));
    assert!(matches!(next(&mut call), Poll::Ready(Event::Notify(_))));
    assert!(matches!(next(&mut call), Poll::Ready(Event::Done(_))));
}

#[test]
fn an_idle_timeout_is_a_result_for_tools_and_an_error_otherwise() {
    let clock = ManualClock::new();
    let mut tool = start(Method::CallTool, &clock, |_| std::future::pending());
    let mut read = start(Method::ReadResource, &clock, |_| std::future::pending());
    assert!(next(&mut tool).is_pending() && next(&mut read).is_pending());
    clock.advance(119);
    assert!(next(&mut tool).is_pending() && next(&mut read).is_pending());
    clock.advance(1);
    assert_eq!(tool_error(next(&mut tool)), ErrorKind::ToolTimeout.message());
    let Poll::Ready(Event::Done(Outcome::Failed(error))) = next(&mut read) else { panic!() };
    assert!(error.kind.is_request_timeout());
}

#[test]
fn activity_restarts_the_idle_timeout_but_not_the_total_one() {
    let clock = ManualClock::new();
    let outbox: Arc<Mutex<Option<Outbox>>> = Arc::default();
    let keep = outbox.clone();
    let mut call = start(Method::CallTool, &clock, move |outbox| {
        *keep.lock().unwrap() = Some(outbox);
        std::future::pending()
    });
    assert!(next(&mut call).is_pending());
    let outbox = outbox.lock().unwrap().take().unwrap();
    for _ in 0..35 {
        clock.advance(100);
        outbox.touch();
        assert!(next(&mut call).is_pending());
    }
    clock.advance(100);
    outbox.touch();
    assert_eq!(tool_error(next(&mut call)), ErrorKind::ToolTimeout.message());
}

#[test]
fn the_idle_timeout_is_paused_while_a_client_request_is_open() {
    let clock = ManualClock::new();
    let mut call = start(Method::CallTool, &clock, |outbox| async move {
        match outbox.ask(ClientRequest::Roots).await {
            Ok(answer) => ToolResult::text(answer).into(),
            Err(error) => error.into(),
        }
    });
    let Poll::Ready(Event::ClientRequest(id, ClientRequest::Roots)) = next(&mut call) else {
        panic!()
    };
    assert!(next(&mut call).is_pending());
    clock.advance(600);
    assert!(next(&mut call).is_pending());
    assert!(call.response_sender().deliver(id, Ok("{}".into())));
    assert!(!call.response_sender().deliver(wharf_model::ClientRequestId(9), Ok("{}".into())));
    assert!(matches!(next(&mut call), Poll::Ready(Event::Done(_))));
}

#[test]
fn a_pause_stops_the_clock_until_it_is_dropped() {
    let clock = ManualClock::new();
    let (kept, mut pauses) = (Arc::new(OnceLock::new()), Vec::new());
    let keeps = kept.clone();
    let mut call = start(Method::CallTool, &clock, move |outbox| {
        let _ = keeps.set(outbox);
        std::future::pending()
    });
    let outbox: &Outbox = kept.get().unwrap();
    for _ in 0..2 {
        pauses.push(outbox.pause());
        assert!(next(&mut call).is_pending());
        clock.advance(600);
        assert!(next(&mut call).is_pending());
    }
    drop(pauses);
    assert!(next(&mut call).is_pending());
    clock.advance(600);
    assert_eq!(tool_error(next(&mut call)), ErrorKind::ToolTimeout.message());
    // A call that has ended has no clock.
    drop(outbox.pause());
}

#[test]
fn a_dropped_client_request_is_cancelled() {
    let mut call = start(Method::CallTool, &ManualClock::new(), |outbox| async move {
        let mut ask = outbox.ask(ClientRequest::Roots);
        poll_fn(|cx| {
            let _ = std::pin::Pin::new(&mut ask).poll(cx);
            Poll::Ready(())
        })
        .await;
        drop(ask);
        done()
    });
    let Poll::Ready(Event::ClientRequest(asked, _)) = next(&mut call) else { panic!() };
    let Poll::Ready(Event::Withdraw(withdrawn)) = next(&mut call) else { panic!() };
    assert_eq!(asked, withdrawn);
    assert!(matches!(next(&mut call), Poll::Ready(Event::Done(_))));
}

#[test]
fn releasing_the_connection_is_one_event_in_order() {
    let mut call = start(Method::CallTool, &ManualClock::new(), |outbox| async move {
        outbox.notify(Notification::ToolsChanged);
        outbox.release_connection();
        outbox.release_connection();
        outbox.notify(Notification::ToolsChanged);
        outbox.release_connection();
        done()
    });
    for expected in ["Notify", "ConnectionMayClose", "Notify", "ConnectionMayClose", "Done"] {
        let Poll::Ready(event) = next(&mut call) else { panic!("nothing to tell") };
        assert!(format!("{event:?}").starts_with(expected), "{event:?}");
    }
}

#[test]
fn a_panic_is_an_outcome_without_details() {
    struct PanicsAtOnce;
    impl Service for PanicsAtOnce {
        fn call(&self, _: Request, _: Outbox) -> BoxFuture<Outcome> {
            panic!("secret")
        }
    }
    let request = RequestBuilder::new(Method::CallTool).target("t").build();
    let timer = Arc::new(ManualClock::new());
    let mut early = ActiveCall::start(&PanicsAtOnce, request, timer, Deadlines::default());
    assert_eq!(tool_error(next(&mut early)), ErrorKind::ToolPanicked.message());

    let mut late = start(Method::CallTool, &ManualClock::new(), |_| async { panic!("secret") });
    assert_eq!(tool_error(next(&mut late)), ErrorKind::ToolPanicked.message());

    let mut prompt = start(Method::GetPrompt, &ManualClock::new(), |_| async { panic!("secret") });
    let Poll::Ready(Event::Done(Outcome::Failed(error))) = next(&mut prompt) else { panic!() };
    assert_eq!(*error, Error::new(ErrorKind::InternalError));
}

#[test]
fn resources_of_a_call_are_released_once_whatever_its_outcome() {
    struct Count(AtomicUsize);
    impl OnCallEnd for Count {
        fn release(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let (a, b) = (count.clone(), count.clone());
    let mut finished = start(Method::CallTool, &ManualClock::new(), move |outbox| {
        outbox.hold(a.clone());
        outbox.hold(a.clone());
        async { done() }
    });
    assert!(matches!(next(&mut finished), Poll::Ready(Event::Done(_))));
    assert_eq!(count.0.load(Ordering::SeqCst), 2);
    drop(finished);
    let mut dropped = start(Method::CallTool, &ManualClock::new(), move |outbox| {
        outbox.hold(b.clone());
        std::future::pending()
    });
    assert!(next(&mut dropped).is_pending());
    drop(dropped);
    assert_eq!(count.0.load(Ordering::SeqCst), 3);
}

#[test]
fn back_pressure_limits_a_handler_to_the_speed_of_the_client() {
    let sent = Arc::new(AtomicUsize::new(0));
    let count = sent.clone();
    let mut call = start(Method::CallTool, &ManualClock::new(), move |outbox| {
        let sent = count.clone();
        async move {
            for step in 0..10_000 {
                outbox.notify(progress(f64::from(step)));
                sent.fetch_add(1, Ordering::SeqCst);
                outbox.wait_for_capacity().await;
            }
            done()
        }
    });
    let mut received = 0;
    loop {
        assert!(sent.load(Ordering::SeqCst) <= received + 256);
        match next(&mut call) {
            Poll::Ready(Event::Notify(_)) => received += 1,
            Poll::Ready(Event::Done(_)) => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(received, 10_000);
}

fn log(size: usize) -> Notification {
    let data = serde_json::value::to_raw_value(&"x".repeat(size)).unwrap();
    Notification::Log { level: LogLevel::Info, logger: None, data }
}

#[test]
fn back_pressure_counts_the_bytes_of_messages() {
    let sent = Arc::new(AtomicUsize::new(0));
    let count = sent.clone();
    let mut call = start(Method::CallTool, &ManualClock::new(), move |outbox| {
        let sent = count.clone();
        async move {
            for _ in 0..20 {
                outbox.notify(log(100_000));
                sent.fetch_add(1, Ordering::SeqCst);
                outbox.wait_for_capacity().await;
            }
            done()
        }
    });
    let mut received = 0;
    loop {
        assert!(sent.load(Ordering::SeqCst) <= received + 1);
        match next(&mut call) {
            Poll::Ready(Event::Notify(_)) => received += 1,
            Poll::Ready(Event::Done(_)) => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(received, 20);
}

#[test]
fn without_awaiting_room_only_progress_and_logs_are_dropped() {
    let mut call = start(Method::CallTool, &ManualClock::new(), move |outbox| async move {
        for _ in 0..1_000 {
            outbox.notify(log(10_000));
        }
        outbox.notify(Notification::ToolsChanged);
        done()
    });
    let (mut bytes, mut changes) = (0, 0);
    loop {
        match next(&mut call) {
            Poll::Ready(Event::Notify(Notification::Log { data, .. })) => bytes += data.get().len(),
            Poll::Ready(Event::Notify(Notification::ToolsChanged)) => changes += 1,
            Poll::Ready(Event::Done(_)) => break,
            other => panic!("{other:?}"),
        }
    }
    assert!((200_000..300_000).contains(&bytes), "{bytes}");
    assert_eq!(changes, 1);
}

#[test]
fn cancellation_completes_the_closed_future() {
    let outbox: Arc<Mutex<Option<Outbox>>> = Arc::default();
    let keep = outbox.clone();
    let mut call = start(Method::CallTool, &ManualClock::new(), move |outbox| {
        *keep.lock().unwrap() = Some(outbox);
        std::future::pending()
    });
    assert!(next(&mut call).is_pending());
    let outbox = outbox.lock().unwrap().take().unwrap();
    let mut closed = Box::pin(outbox.closed());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(closed.as_mut().poll(&mut cx).is_pending());
    drop(call);
    assert!(outbox.is_closed() && closed.as_mut().poll(&mut cx).is_ready());
}
