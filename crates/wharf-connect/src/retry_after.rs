//! Header `Retry-After` of HTTP responses.

use std::time::{Duration, SystemTime};

/// Parses the header `Retry-After`: seconds, or a date. A date in the past is zero.
///
/// ```
/// use std::time::Duration;
/// use wharf_connect::parse_retry_after;
///
/// assert_eq!(parse_retry_after("120"), Some(Duration::from_secs(120)));
/// assert_eq!(parse_retry_after("Thu, 01 Jan 1970 00:00:00 GMT"), Some(Duration::ZERO));
/// assert_eq!(parse_retry_after("soon"), None);
/// ```
#[must_use]
pub fn parse_retry_after(text: &str) -> Option<Duration> {
    let text = text.trim();
    match text.parse::<u64>() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => {
            let then = httpdate::parse_http_date(text).ok()?;
            Some(then.duration_since(SystemTime::now()).unwrap_or_default())
        }
    }
}
