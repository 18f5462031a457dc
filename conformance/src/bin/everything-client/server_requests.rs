//! Handler that accepts every server request.

use wharf::{
    client::ClientHandlerBuilder,
    model::{ElicitResult, Root, SamplingResult},
};

use crate::sample_values;

pub(crate) fn handler() -> ClientHandlerBuilder {
    ClientHandlerBuilder::new()
        .elicit(async |form| {
            Ok(ElicitResult::accept(sample_values::without_defaults(&form.schema)))
        })
        .elicit_url(async |_| Ok(ElicitResult::accept_url()))
        .sample(async |_| Ok(SamplingResult::new("none", "a line of text")))
        .fixed_roots([Root::new("file:///work")])
}
