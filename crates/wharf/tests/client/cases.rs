//! Table of the test cases.

mod basics;
mod server_requests;
mod shutdown;
mod subscriptions;

use std::{future::Future, pin::Pin};

use crate::harness::{FOUND_OUT, Harness, Route};

/// Test case: actions of the client and the expected result.
pub struct Case {
    pub name: &'static str,
    pub run: fn(Harness) -> CaseFuture,
    pub routes: &'static [Route],
    pub revisions: &'static [&'static str],
}

pub type CaseFuture = Pin<Box<dyn Future<Output = ()>>>;

const EVERY: &[&str] =
    &["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", FOUND_OUT];
const FORMS: &[&str] = &["2025-06-18", "2025-11-25", "2026-07-28", FOUND_OUT];
const URLS: &[&str] = &["2025-11-25", "2026-07-28", FOUND_OUT];
const ERAS: &[&str] = &["2025-11-25", "2026-07-28"];
const LEGACY: &[&str] = &["2024-11-05", "2025-11-25"];

/// All routes to a server.
const EVERYWHERE: &[Route] = &[
    Route::Local,
    Route::Memory,
    Route::Child,
    Route::Tcp,
    #[cfg(unix)]
    Route::Unix,
    Route::Http,
    Route::Sse2024,
    #[cfg(feature = "websocket")]
    Route::WebSocket,
    Route::Proxy,
];
/// All routes without a proxy.
const DIRECT: &[Route] = &[
    Route::Local,
    Route::Memory,
    Route::Child,
    Route::Tcp,
    #[cfg(unix)]
    Route::Unix,
    Route::Http,
    Route::Sse2024,
    #[cfg(feature = "websocket")]
    Route::WebSocket,
];
const CHILD: &[Route] = &[Route::Child];

macro_rules! cases {
    ($($module:ident::$name:ident $routes:ident $revisions:ident;)*) => {
        &[$(Case {
            name: stringify!($name),
            run: |harness| Box::pin($module::$name(harness)),
            routes: $routes,
            revisions: $revisions,
        },)*]
    };
}

#[rustfmt::skip]
pub static CASES: &[Case] = cases! {
    basics::server_info_is_returned EVERYWHERE EVERY;
    basics::lists_are_walked_to_their_end EVERYWHERE EVERY;
    basics::a_tool_is_called_with_values_and_gives_values EVERYWHERE EVERY;
    basics::a_tool_that_fails_is_a_result_and_for_values_an_error EVERYWHERE EVERY;
    basics::unknown_tools_and_arguments_are_errors EVERYWHERE EVERY;
    basics::every_content_arrives EVERYWHERE EVERY;
    basics::resources_are_read EVERYWHERE EVERY;
    basics::prompts_are_filled_in EVERYWHERE EVERY;
    basics::arguments_are_completed EVERYWHERE EVERY;
    basics::progress_and_logs_arrive_before_the_end EVERYWHERE EVERY;
    basics::a_ping_and_any_request_are_answered EVERYWHERE EVERY;
    basics::many_calls_at_once_get_their_own_answers EVERYWHERE ERAS;
    server_requests::a_form_is_filled_in DIRECT FORMS;
    server_requests::a_form_may_be_declined DIRECT FORMS;
    server_requests::two_questions_at_once_are_answered DIRECT FORMS;
    server_requests::an_effect_happens_once_however_many_rounds DIRECT FORMS;
    server_requests::resources_and_prompts_may_ask DIRECT FORMS;
    server_requests::a_page_is_visited DIRECT URLS;
    server_requests::a_model_is_asked DIRECT EVERY;
    server_requests::roots_are_listed DIRECT EVERY;
    server_requests::no_consent_prompt_without_a_terminal DIRECT FORMS;
    server_requests::an_answer_that_does_not_fit_its_form_fails_the_call DIRECT FORMS;
    subscriptions::a_change_of_the_tools_is_notified EVERYWHERE EVERY;
    subscriptions::a_resource_is_followed EVERYWHERE EVERY;
    shutdown::a_call_that_is_dropped_is_cancelled_there EVERYWHERE ERAS;
    shutdown::a_call_that_is_silent_too_long_ends DIRECT ERAS;
    shutdown::a_closed_client_returns_an_error EVERYWHERE ERAS;
    shutdown::a_crashed_server_is_started_again CHILD ERAS;
    shutdown::a_server_ends_with_its_client CHILD LEGACY;
};
