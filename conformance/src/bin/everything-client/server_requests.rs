//! Agrees to everything that a server asks.

use wharf::{
    client::ClientHandlerBuilder,
    model::{ElicitResult, Root, SamplingResult},
};

use crate::values;

pub(crate) fn answers() -> ClientHandlerBuilder {
    ClientHandlerBuilder::new()
        .elicit(async |form| Ok(ElicitResult::accept(values::without_defaults(&form.schema))))
        .elicit_url(async |_| Ok(ElicitResult::accept_url()))
        .sample(async |_| Ok(SamplingResult::new("none", "a line of text")))
        .fixed_roots([Root::new("file:///work")])
}
