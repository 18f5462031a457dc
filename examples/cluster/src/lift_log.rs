//! Log of the nodes' output, and the check that no completed step was repeated.

use crate::node::LIFT_OUTPUT;

/// Lifts in order: the node and the number of the crate.
#[derive(Default)]
pub(crate) struct LiftLog {
    lifts: Vec<(&'static str, u32)>,
    /// Number of lifts before the kill.
    before: Option<usize>,
}

impl LiftLog {
    pub(crate) fn record(&mut self, node: &'static str, line: &str) {
        let number = line.strip_prefix(LIFT_OUTPUT).and_then(|number| number.parse().ok());
        self.lifts.extend(number.map(|number| (node, number)));
    }

    /// Returns the number of the crate that was lifted last.
    pub(crate) fn last_lifted(&self) -> u32 {
        self.lifts.last().map_or(0, |(_, number)| *number)
    }

    /// Records that the node was killed; returns the crate that it was lifting.
    pub(crate) fn kill(&mut self) -> u32 {
        self.before = Some(self.lifts.len());
        self.last_lifted()
    }

    pub(crate) fn has_killed(&self) -> bool {
        self.before.is_some()
    }

    /// Checks the log. A completed step must not run again; the one in flight may, unless it completed just before the kill.
    pub(crate) fn check(&self, crates: u32) -> Result<String, String> {
        let (before, after) = self.lifts.split_at(self.before.ok_or("no node was killed")?);
        let times = |number: u32| self.lifts.iter().filter(|(_, it)| *it == number).count();
        let last_lifted = before.last().map_or(0, |(_, number)| *number);
        let kept = (1..=crates).filter(|number| *number != last_lifted).all(|it| times(it) == 1);
        match (kept, times(last_lifted)) {
            _ if after.is_empty() => Err("no other node took over".to_owned()),
            (true, 1) => Ok("no crate was lifted twice".to_owned()),
            (true, 2) => Ok(format!(
                "crate {last_lifted} was lifted again, because its step had not completed; no other was"
            )),
            _ => Err(format!("a completed step was repeated: {:?}", self.lifts)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(before: &[u32], after: &[u32]) -> LiftLog {
        let mut log = LiftLog::default();
        before.iter().for_each(|number| log.record("north", &format!("{LIFT_OUTPUT}{number}")));
        log.kill();
        after.iter().for_each(|number| log.record("east", &format!("{LIFT_OUTPUT}{number}")));
        log
    }

    #[test]
    fn only_what_was_in_the_air_may_be_lifted_again() {
        assert!(log(&[1, 2], &[2, 3]).check(3).is_ok());
        assert!(log(&[1, 2], &[3]).check(3).is_ok());
        assert!(log(&[1, 2], &[1, 2, 3]).check(3).is_err());
        assert!(log(&[1, 2], &[2, 2, 3]).check(3).is_err());
        assert!(log(&[1, 2], &[2]).check(3).is_err());
        assert!(log(&[1, 2, 3], &[]).check(3).is_err());
    }
}
