//! Tasks: calls that continue after their connection closes.

use std::{fmt, str::FromStr, time::SystemTime};

use crate::{ClientRequest, Error, ErrorKind, ToolResult};

/// Extension with which modern clients and servers declare support for tasks.
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Task request of the caller of a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
// Exhaustive: every match decides about a new variant.
pub enum TaskRequest {
    /// The protocol of the caller has no tasks: it waits for the result.
    #[default]
    Unknown,
    /// The protocol has tasks, but the caller did not declare support for them.
    Declined,
    /// The caller supports tasks; the server decides.
    Welcome,
    /// The caller requests a task that is kept for this many milliseconds.
    Wanted(Option<u64>),
}

/// Status of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskStatus {
    /// In progress.
    Working,
    /// Waiting for input from the owner.
    InputRequired,
    /// Completed with a result.
    Completed,
    /// Failed with an error.
    Failed,
    /// Cancelled.
    Cancelled,
}

impl TaskStatus {
    const ALL: [TaskStatus; 5] = {
        use TaskStatus::*;
        [Working, InputRequired, Completed, Failed, Cancelled]
    };

    /// Returns the status in its wire format.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        ["working", "input_required", "completed", "failed", "cancelled"][self as usize]
    }

    /// Returns whether the status is terminal, so that it never changes again.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        !matches!(self, TaskStatus::Working | TaskStatus::InputRequired)
    }
}

impl FromStr for TaskStatus {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = TaskStatus::ALL.into_iter().find(|status| status.as_str() == text);
        found.ok_or_else(|| Error::new(ErrorKind::TaskStateInvalid))
    }
}

/// Task in the view of its owner.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod tasks { pub use super::*; } }
/// use wharf::{ToolResult, tasks::{Task, TaskState, TaskStatus, Timestamp}};
///
/// let born = Timestamp::from_millis(1_790_000_000_000);
/// let mut task = Task::new("786512e2", born);
/// assert_eq!(task.status(), TaskStatus::Working);
/// task.state = TaskState::Completed(ToolResult::text("done").into());
/// assert!(task.status().is_terminal());
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Task {
    /// Id. Only the owner can read the task with it.
    pub id: String,
    /// State.
    pub state: TaskState,
    /// Human-readable status message.
    pub message: Option<String>,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change of state or message.
    pub updated_at: Timestamp,
    /// Lifetime in milliseconds after creation; `None` for no limit.
    pub ttl: Option<u64>,
    /// Recommended poll interval in milliseconds.
    pub poll_interval: Option<u64>,
}

/// State of a task with its data.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TaskState {
    /// In progress.
    Working,
    /// Waiting for responses to these client requests, each under its key, in order.
    InputRequired(Vec<(String, ClientRequest)>),
    /// Completed with a result.
    Completed(Box<ToolResult>),
    /// Failed with a protocol error.
    Failed(Box<Error>),
    /// Cancelled.
    Cancelled,
}

impl Task {
    /// Creates a task in progress, created at `born`.
    #[must_use]
    pub fn new(id: impl Into<String>, born: Timestamp) -> Self {
        Task {
            id: id.into(),
            state: TaskState::Working,
            message: None,
            created_at: born,
            updated_at: born,
            ttl: None,
            poll_interval: None,
        }
    }

    /// Returns the status.
    #[must_use]
    pub fn status(&self) -> TaskStatus {
        match self.state {
            TaskState::Working => TaskStatus::Working,
            TaskState::InputRequired(_) => TaskStatus::InputRequired,
            TaskState::Completed(_) => TaskStatus::Completed,
            TaskState::Failed(_) => TaskStatus::Failed,
            TaskState::Cancelled => TaskStatus::Cancelled,
        }
    }
}

/// Time in milliseconds since 1970, formatted as in RFC 3339.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod tasks { pub use super::*; } }
/// use wharf::tasks::Timestamp;
///
/// let moment = Timestamp::from_millis(1_764_066_600_250);
/// assert_eq!(moment.to_string(), "2025-11-25T10:30:00.250Z");
/// assert_eq!("2025-11-25T11:30:00.25+01:00".parse(), Ok(moment));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

const DAY: u64 = 86_400_000;
/// Days from 0000-03-01, which simplifies leap days, to 1970-01-01.
const EPOCH: i64 = 719_468;
/// Days in 400 years, after which the calendar repeats.
const CYCLE: i64 = 146_097;

impl Timestamp {
    /// Creates a time from milliseconds since the beginning of 1970.
    #[must_use]
    pub fn from_millis(millis: u64) -> Self {
        Timestamp(millis)
    }

    /// Returns the milliseconds since the beginning of 1970.
    #[must_use]
    pub fn as_millis(self) -> u64 {
        self.0
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, rest) = (self.0 / DAY, self.0 % DAY);
        let (year, month, day) = date(i64::try_from(days).unwrap_or(0));
        let (hour, minute, second) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        match rest % 1000 {
            0 => f.write_str("Z"),
            millis => write!(f, ".{millis:03}Z"),
        }
    }
}

impl FromStr for Timestamp {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text).ok_or_else(|| {
            Error::new(ErrorKind::ValidationFailed)
                .with_message("a time must look like 2030-01-31T10:30:00Z")
        })
    }
}

/// Converts a day number since 1970 to year, month and day.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH;
    let (cycle, day) = (days.div_euclid(CYCLE), days.rem_euclid(CYCLE));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Months since March.
    let month = (5 * day + 2) / 153;
    let in_next_year = i64::from(month >= 10);
    let year = cycle * 400 + year + in_next_year;
    (year, if month < 10 { month + 3 } else { month - 9 }, day - (153 * month + 2) / 5 + 1)
}

/// Converts a date to a day number since 1970.
fn day_number(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (cycle, of_cycle) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    cycle * CYCLE + of_cycle * 365 + of_cycle / 4 - of_cycle / 100 + of_year - EPOCH
}

fn parse(text: &str) -> Option<Timestamp> {
    let number = |range: std::ops::Range<usize>, most: i64| {
        let digits = text.get(range)?;
        let digits = digits.bytes().all(|byte| byte.is_ascii_digit()).then_some(digits)?;
        digits.parse().ok().filter(|number| *number <= most)
    };
    let marks = [(4, "-"), (7, "-"), (13, ":"), (16, ":")];
    let marked = marks.into_iter().all(|(at, mark)| text.get(at..at + 1) == Some(mark));
    if !marked || !matches!(text.get(10..11)?, "T" | "t" | " ") {
        return None;
    }
    let days = day_number(number(0..4, 9999)?, number(5..7, 12)?, number(8..10, 31)?);
    let seconds = number(11..13, 23)? * 3600 + number(14..16, 59)? * 60 + number(17..19, 60)?;
    let rest = text.get(19..)?;
    let (fraction, zone) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?),
        None => ("", rest),
    };
    let millis: i64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    let total = (days * 86_400 + seconds - offset(zone)?) * 1000 + millis;
    u64::try_from(total).ok().map(Timestamp)
}

/// Parses the offset of a time zone in seconds.
fn offset(zone: &str) -> Option<i64> {
    let sign = match zone.get(..1)? {
        "Z" | "z" if zone.len() == 1 => return Some(0),
        "+" => 1,
        "-" => -1,
        _ => return None,
    };
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    let hours: i64 = hours.parse().ok().filter(|it| (0..=23).contains(it))?;
    let minutes: i64 = minutes.parse().ok().filter(|it| (0..=59).contains(it))?;
    Some(sign * (hours * 3600 + minutes * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back_as_they_were_written() {
        let hour_and_a_bit = 3_723_457;
        for millis in (0..20_000_000_000_000).step_by(86_400_000 * 13 + hour_and_a_bit) {
            let moment = Timestamp::from_millis(millis);
            assert_eq!(moment.to_string().parse(), Ok(moment), "{moment}");
        }
    }

    #[test]
    fn known_days() {
        for (text, millis) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T23:59:59Z", 951_868_799_000),
            ("2024-03-01T00:00:00Z", 1_709_251_200_000),
            ("2100-03-01T00:00:00Z", 4_107_542_400_000),
        ] {
            assert_eq!(Timestamp::from_millis(millis).to_string(), text);
            assert_eq!(text.parse(), Ok(Timestamp::from_millis(millis)));
        }
        for odd in [
            "",
            "now",
            "2025-11-25",
            "2025-11-25T10:30:00",
            "2025-13-25T10:30:00Z",
            "2025-11-25T10:30:00.Z5",
            "2025-11-25T10:30:00+1",
            "1969-12-31T00:00:00Z",
            "2025-11-2éT10:30:00Z",
        ] {
            assert!(odd.parse::<Timestamp>().is_err(), "{odd}");
        }
    }

    #[test]
    fn statuses_are_named() {
        for status in TaskStatus::ALL {
            assert_eq!(status.as_str().parse(), Ok(status));
        }
        assert!("done".parse::<TaskStatus>().is_err());
    }
}
