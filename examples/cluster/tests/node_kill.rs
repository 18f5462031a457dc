//! Runs the example and checks its output.

use std::process::Command;

#[test]
fn the_task_survives_the_kill_of_its_node() {
    let output = Command::new(env!("CARGO_BIN_EXE_cluster")).output().unwrap();
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "it failed:\n{said}{errors}");

    let (killed, number) =
        between(&said, "kill -9 ", " in the air").split_once(", with crate ").unwrap();
    let in_the_air: u32 = number.parse().unwrap();
    let times = |what: &str| said.lines().filter(|line| line.ends_with(what)).count();
    for number in (1..=5).filter(|number| *number != in_the_air) {
        assert_eq!(times(&format!("│ lifts crate {number}")), 1, "crate {number}:\n{said}");
    }
    assert_eq!(said.matches("takes the task over").count(), 1, "{said}");
    // The result names the killed node for the crates that it had lifted.
    let result = between(&said, "has the result: ", "\n").split(", ");
    for (number, crate_by) in (1..).zip(result) {
        let is_by_killed = crate_by == format!("crate {number} by {killed}");
        assert!(number == in_the_air || is_by_killed == (number < in_the_air), "{said}");
    }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("no {before}:\n{text}"));
    rest.split(after).next().unwrap_or(rest)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
