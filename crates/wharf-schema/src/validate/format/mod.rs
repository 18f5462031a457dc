//! String formats (`format`).

mod ascii;
mod idna;
mod net;
mod pointer;
mod template;
mod time;
mod uri;

use super::{
    dialect::Draft::{self, Four, Seven, Six, Y2019},
    pattern::is_pattern,
    step_budget::{StepBudget, StopReason},
};

/// A format that is validated.
#[derive(Debug)]
pub(super) struct Format {
    pub(super) name: &'static str,
    /// First dialect that defines it.
    since: Draft,
    is_met: fn(&str) -> bool,
}

const fn format(name: &'static str, since: Draft, is_met: fn(&str) -> bool) -> Format {
    Format { name, since, is_met }
}

static FORMATS: [Format; 20] = [
    format("date-time", Four, time::is_date_time),
    format("date", Four, time::is_date),
    format("time", Four, time::is_time),
    format("duration", Y2019, time::is_duration),
    format("email", Four, net::is_email),
    format("idn-email", Seven, net::is_idn_email),
    format("hostname", Seven, net::is_hostname),
    format("hostname", Four, net::is_plain_hostname),
    format("idn-hostname", Seven, net::is_idn_hostname),
    format("ipv4", Four, net::is_ipv4),
    format("ipv6", Four, net::is_ipv6),
    format("uri", Four, uri::is_uri),
    format("uri-reference", Six, uri::is_uri_reference),
    format("iri", Seven, uri::is_iri),
    format("iri-reference", Seven, uri::is_iri_reference),
    format("uri-template", Six, template::is_uri_template),
    format("uuid", Y2019, net::is_uuid),
    format("json-pointer", Six, pointer::is_json_pointer),
    format("relative-json-pointer", Seven, pointer::is_relative_json_pointer),
    format("regex", Four, is_pattern),
];

/// Steps per byte of an internationalized name, which is decoded, looked up and encoded again.
const IDN_STEPS_PER_BYTE: usize = 8;

impl Format {
    /// True if the text is of this format.
    #[inline(never)]
    pub(super) fn is_in(&self, text: &str, budget: &mut StepBudget) -> Result<bool, StopReason> {
        budget.spend(self.cost(text))?;
        Ok((self.is_met)(text))
    }

    /// Steps that the validation of a text costs.
    fn cost(&self, text: &str) -> usize {
        // A longer name is rejected at once.
        let is_international =
            || text.len() <= idna::MAX_NAME_BYTES && (!text.is_ascii() || text.contains("--"));
        match self.name.ends_with("hostname") && is_international() {
            true => IDN_STEPS_PER_BYTE * text.len(),
            false => text.len(),
        }
    }
}

/// Newest definition of the format in the dialect; `None` if it is not validated.
pub(super) fn named(name: &str, draft: Draft) -> Option<&'static Format> {
    FORMATS.iter().find(|it| it.name == name && it.since <= draft)
}
