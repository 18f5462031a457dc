//! Names that the expansion also uses may be shadowed at the function.
#![deny(warnings)]

mod types {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    pub(crate) struct Arguments {
        pub(crate) value: i64,
    }

    /// Application type with the name of Wharf's extractor.
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    pub(crate) enum State {
        Ohio,
    }
}

#[allow(dead_code)]
mod hostile {
    use super::types::{Arguments, State};

    mod core {}
    mod schemars {}
    mod serde {}
    mod std {}
    mod wharf {}

    struct Args;
    struct Box;
    struct Into;
    struct Result;
    struct Send;
    struct Tool;
    struct Vec;

    #[::wharf::tool]
    pub(crate) async fn shadowed(
        arguments: Arguments,
        state: State,
        shadowed: i64,
        #[default("x")] value_0: ::std::string::String,
    ) -> i64 {
        let State::Ohio = state;
        arguments.value + shadowed + value_0.len() as i64
    }
}

pub(crate) fn main() {
    use hostile::shadowed;
    assert!(wharf::server::Router::builder().tool::<shadowed>().build().is_ok());
}
