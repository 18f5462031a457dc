//! Results of steps that cannot be recorded, as in release builds.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU32, Ordering},
};

use serde_json::json;
use tracing::Level;
use wharf_model::{ElicitResult, InputMode};
use wharf_testbed::LogCatcher;

use crate::{Args, ClientRequestError, Ctx, HandlerTest, Router, Tool};

static EFFECTS: AtomicU32 = AtomicU32::new(0);

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Asked {
    kind: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Confirm {
    #[allow(dead_code, reason = "only the schema counts")]
    sure: bool,
}

/// Runs a step, asks, and returns the result of the step in the last run.
async fn effect(Args(asked): Args<Asked>, ctx: Ctx) -> Result<String, ClientRequestError> {
    let run = async |nan: f64| {
        EFFECTS.fetch_add(1, Ordering::SeqCst);
        nan
    };
    let result = match &*asked.kind {
        "number" => format!("{:?}", ctx.step("s", run(f64::NAN)).await),
        "option" => format!("{:?}", ctx.step("s", async { Some(run(f64::NAN).await) }).await),
        "list" => format!("{:?}", ctx.step("s", async { vec![Some(run(f64::NAN).await)] }).await),
        "key" => {
            let map = async { HashMap::from([((1, 2), run(1.0).await)]) };
            format!("{:?}", ctx.step("s", map).await)
        }
        _ => format!("{:?}", ctx.step("s", async { Some(run(0.5).await) }).await),
    };
    ctx.ask::<Confirm>("c", "Sure?").await?;
    Ok(result)
}

/// `Some(NaN)` was recorded as `null`, so a retry returned `None`. A `NaN` was found only by the retry.
#[tokio::test]
async fn a_result_that_cannot_be_recorded_is_logged_and_returned_and_not_recorded() {
    let router = Router::builder().add(Tool::new("effect", effect)).build().unwrap();
    for (kind, result, runs, lines) in [
        ("number", "NaN", 2, 2),
        ("option", "Some(NaN)", 2, 2),
        ("list", "[Some(NaN)]", 2, 2),
        ("key", "{(1, 2): 1.0}", 2, 2),
        ("finite", "Some(0.5)", 1, 0),
    ] {
        EFFECTS.store(0, Ordering::SeqCst);
        let (log, _guard) = LogCatcher::on_this_thread(Level::ERROR);
        let test = HandlerTest::tool(&router, "effect").arguments(json!({"kind": kind}));
        let sure = ElicitResult::accept(json!({"sure": true}));
        let report = test.answer("c", sure).run(InputMode::Suspend).await;
        assert_eq!((&*report.text(), EFFECTS.load(Ordering::SeqCst)), (result, runs), "{kind}");
        let logged = log.lines();
        assert_eq!(logged.len(), lines, "{kind}: {logged:?}");
        let is_named =
            |line: &String| line.contains("cannot record step") && line.contains("step=");
        assert!(logged.iter().all(is_named), "{logged:?}");
    }
}
