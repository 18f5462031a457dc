//! Table of the test cases.

mod basics;
mod custom;
mod in_flight_calls;
mod load;
mod malformed;
mod server_requests;
mod shutdown;
#[cfg(feature = "skills")]
mod skills;
mod subscriptions;

use std::{future::Future, pin::Pin};

use crate::harness::{Harness, LINES, Transport};

/// Test case: actions of a client and the expected behaviour of the server.
pub struct Case {
    pub name: &'static str,
    pub run: fn(Harness, &'static str) -> CaseFuture,
    pub transports: &'static [Transport],
    pub revisions: &'static [&'static str],
}

pub type CaseFuture = Pin<Box<dyn Future<Output = ()>>>;

const EVERY: &[&str] = &["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
const LEGACY: &[&str] = &["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
const MODERN: &[&str] = &["2026-07-28"];
/// Newest revision of each era, for cases about the transport.
const ERAS: &[&str] = &["2025-11-25", "2026-07-28"];
const BATCHES: &[&str] = &["2025-03-26"];
const NO_BATCHES: &[&str] = &["2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"];
const FORMS: &[&str] = &["2025-06-18", "2025-11-25", "2026-07-28"];
const URLS: &[&str] = &["2025-11-25", "2026-07-28"];

/// All transports that this machine supports.
const EVERYWHERE: &[Transport] = &[
    Transport::Memory,
    Transport::Stdio,
    Transport::Tcp,
    #[cfg(unix)]
    Transport::Unix,
    Transport::Http,
    Transport::HttpJson,
    Transport::HttpSse,
    Transport::Http2,
    Transport::Sse2024,
    #[cfg(feature = "websocket")]
    Transport::WebSocket,
];
/// Transports over which the server can send messages before its reply.
const TALKING: &[Transport] = &[
    Transport::Memory,
    Transport::Stdio,
    Transport::Tcp,
    #[cfg(unix)]
    Transport::Unix,
    Transport::Http,
    Transport::HttpSse,
    Transport::Http2,
    Transport::Sse2024,
    #[cfg(feature = "websocket")]
    Transport::WebSocket,
];
/// Transports that reject a message that is too long and process the next one.
const FORGIVING: &[Transport] = &[
    Transport::Memory,
    Transport::Stdio,
    Transport::Tcp,
    #[cfg(unix)]
    Transport::Unix,
    Transport::Http,
    Transport::HttpJson,
    Transport::Http2,
];
const JSON: &[Transport] = &[Transport::HttpJson];
const STDIO: &[Transport] = &[Transport::Stdio];
const MEMORY: &[Transport] = &[Transport::Memory];
const TCP: &[Transport] = &[Transport::Tcp];
/// Transports over which several clients connect to one server.
const SHARED: &[Transport] = &[
    Transport::Memory,
    Transport::Tcp,
    Transport::Http,
    Transport::Http2,
    Transport::Sse2024,
    #[cfg(feature = "websocket")]
    Transport::WebSocket,
];

macro_rules! cases {
    ($($module:ident { $($(#[$when:meta])* $case:ident $transports:ident $revisions:ident,)* })*) => {
        pub static CASES: &[Case] = &[$($($(#[$when])* Case {
            name: concat!(stringify!($module), "::", stringify!($case)),
            run: |harness, revision| Box::pin($module::$case(harness, revision)),
            transports: $transports,
            revisions: $revisions,
        },)*)*];
    };
}

cases! {
    basics {
        server_info_is_returned EVERYWHERE EVERY,
        a_tool_is_listed_and_called EVERYWHERE EVERY,
        a_tool_gives_structure EVERYWHERE EVERY,
        a_tool_gives_contents_of_every_kind EVERYWHERE EVERY,
        a_tool_that_fails_says_so_and_the_next_call_works EVERYWHERE EVERY,
        a_tool_that_panics_says_so_and_the_next_call_works EVERYWHERE EVERY,
        a_tool_that_blocks_works EVERYWHERE EVERY,
        an_unknown_tool_is_an_error EVERYWHERE EVERY,
        arguments_of_the_wrong_type_are_told EVERYWHERE EVERY,
        resources_are_listed_and_read EVERYWHERE EVERY,
        templates_are_listed_and_read EVERYWHERE EVERY,
        an_unknown_resource_is_an_error EVERYWHERE EVERY,
        prompts_are_listed_and_got EVERYWHERE EVERY,
        a_prompt_without_its_argument_is_an_error EVERYWHERE EVERY,
        arguments_are_completed EVERYWHERE EVERY,
        lists_come_in_pages EVERYWHERE EVERY,
        methods_of_another_era_are_unknown EVERYWHERE EVERY,
        ping_is_answered EVERYWHERE LEGACY,
    }
    custom {
        it_is_called_by_its_name EVERYWHERE EVERY,
        other_names_are_unknown EVERYWHERE EVERY,
        wrong_parameters_are_told EVERYWHERE EVERY,
        a_result_that_is_no_object_is_an_internal_error EVERYWHERE ERAS,
        it_reports_progress TALKING EVERY,
        it_asks_the_client TALKING FORMS,
        it_asks_the_client JSON MODERN,
    }
    in_flight_calls {
        progress_comes_in_order_before_the_reply TALKING EVERY,
        progress_is_sent_only_on_request TALKING EVERY,
        logs_come_from_the_level_that_was_asked_for TALKING EVERY,
        a_cancelled_call_is_dropped_without_a_reply TALKING EVERY,
        calls_overtake_each_other EVERYWHERE EVERY,
        an_id_under_way_cannot_be_used_again TALKING EVERY,
        a_batch_is_answered_as_one TALKING BATCHES,
        a_batch_is_refused_where_there_are_none EVERYWHERE NO_BATCHES,
        a_tool_that_shows_no_life_times_out MEMORY ERAS,
    }
    server_requests {
        a_form_is_filled_in TALKING FORMS,
        a_form_is_filled_in JSON MODERN,
        a_decline_and_a_cancel_are_different_answers TALKING FORMS,
        two_questions_go_out_at_once TALKING FORMS,
        an_effect_happens_once_however_often_the_client_is_asked TALKING FORMS,
        an_effect_happens_once_however_often_the_client_is_asked JSON MODERN,
        the_clients_model_is_asked TALKING EVERY,
        the_clients_roots_are_asked_for TALKING EVERY,
        a_url_is_opened TALKING URLS,
        resources_and_prompts_ask_too TALKING FORMS,
        undeclared_client_capabilities_are_not_requested TALKING EVERY,
        a_question_of_a_cancelled_call_is_taken_back TALKING LEGACY,
        a_client_that_leaves_ends_open_questions TALKING LEGACY,
    }
    subscriptions {
        a_changed_list_is_told TALKING EVERY,
        resource_updates_reach_their_subscribers TALKING EVERY,
        a_listen_can_be_cancelled TALKING MODERN,
        a_listen_ends_with_its_result_when_the_server_stops TALKING MODERN,
        a_listen_ends_with_its_result_when_the_client_closes LINES MODERN,
    }
    malformed {
        a_malformed_message_gets_an_error_and_the_next_one_works EVERYWHERE EVERY,
        blank_lines_are_skipped LINES ERAS,
        carriage_returns_are_tolerated LINES ERAS,
        a_line_that_is_too_long_gets_its_error_and_the_next_works FORGIVING ERAS,
        a_message_may_come_in_pieces LINES ERAS,
        the_last_line_needs_no_newline LINES ERAS,
        a_request_of_a_browser_ends_the_connection TCP MODERN,
    }
    load {
        each_of_many_clients_gets_its_own_answers EVERYWHERE ERAS,
        thousands_of_calls_in_a_row_each_get_one_reply EVERYWHERE ERAS,
        two_thousand_slow_calls_at_once_each_get_one_reply EVERYWHERE ERAS,
        #[cfg(target_os = "linux")]
        memory_stays_flat_over_ten_thousand_calls STDIO ERAS,
        a_client_that_does_not_read_holds_the_handler_back SHARED ERAS,
    }
    skills {
        #[cfg(feature = "skills")]
        they_are_listed_and_read EVERYWHERE EVERY,
        #[cfg(feature = "skills")]
        unknown_ones_are_invalid_parameters EVERYWHERE EVERY,
    }
    shutdown {
        calls_under_way_are_finished_when_the_client_closes LINES ERAS,
        calls_under_way_are_finished_when_the_server_stops TALKING ERAS,
        both_eras_share_one_stream EVERYWHERE EVERY,
        the_process_ends_when_stdin_does STDIO ERAS,
        the_process_ends_when_its_parent_is_killed STDIO MODERN,
        the_process_ends_when_stdout_closes STDIO MODERN,
        a_second_signal_ends_the_process_at_once STDIO MODERN,
        printing_does_not_harm_the_stream STDIO ERAS,
        a_runtime_of_one_thread_is_enough STDIO ERAS,
    }
}
