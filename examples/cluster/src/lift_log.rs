//! What was heard of the nodes, and whether it is what was promised.

use crate::node::LIFTS;

/// Which node lifted which crate, in order.
#[derive(Default)]
pub(crate) struct Log {
    lifts: Vec<(&'static str, u32)>,
    /// How many of the lifts the killed node made.
    before: Option<usize>,
}

impl Log {
    pub(crate) fn hear(&mut self, node: &'static str, line: &str) {
        let number = line.strip_prefix(LIFTS).and_then(|number| number.parse().ok());
        self.lifts.extend(number.map(|number| (node, number)));
    }

    /// The crate that was lifted last.
    pub(crate) fn in_the_air(&self) -> u32 {
        self.lifts.last().map_or(0, |(_, number)| *number)
    }

    /// The node is dead: the crate that it was lifting.
    pub(crate) fn kill(&mut self) -> u32 {
        self.before = Some(self.lifts.len());
        self.in_the_air()
    }

    pub(crate) fn has_killed(&self) -> bool {
        self.before.is_some()
    }

    /// A step that had ended is remembered. One that was under way is run again, unless it ended just then.
    pub(crate) fn verdict(&self, crates: u32) -> Result<String, String> {
        let (before, after) = self.lifts.split_at(self.before.ok_or("no node was killed")?);
        let times = |number: u32| self.lifts.iter().filter(|(_, it)| *it == number).count();
        let in_the_air = before.last().map_or(0, |(_, number)| *number);
        let kept = (1..=crates).filter(|number| *number != in_the_air).all(|it| times(it) == 1);
        match (kept, times(in_the_air)) {
            _ if after.is_empty() => Err("no other node took over".to_owned()),
            (true, 1) => Ok("no crate was lifted twice".to_owned()),
            (true, 2) => Ok(format!(
                "crate {in_the_air} was lifted again, as nobody knew whether it was aboard; no other was"
            )),
            _ => Err(format!("a step that had ended was repeated: {:?}", self.lifts)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(before: &[u32], after: &[u32]) -> Log {
        let mut log = Log::default();
        before.iter().for_each(|number| log.hear("north", &format!("{LIFTS}{number}")));
        log.kill();
        after.iter().for_each(|number| log.hear("east", &format!("{LIFTS}{number}")));
        log
    }

    #[test]
    fn only_what_was_in_the_air_may_be_lifted_again() {
        assert!(log(&[1, 2], &[2, 3]).verdict(3).is_ok());
        assert!(log(&[1, 2], &[3]).verdict(3).is_ok());
        assert!(log(&[1, 2], &[1, 2, 3]).verdict(3).is_err());
        assert!(log(&[1, 2], &[2, 2, 3]).verdict(3).is_err());
        assert!(log(&[1, 2], &[2]).verdict(3).is_err());
        assert!(log(&[1, 2, 3], &[]).verdict(3).is_err());
    }
}
