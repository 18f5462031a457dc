//! Router, handlers, extractors and context of Wharf, blind to protocol revisions
#![forbid(unsafe_code)]
