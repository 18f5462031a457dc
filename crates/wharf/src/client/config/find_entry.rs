//! Search for an entry in all configuration files: which one counts if several have its name.

use super::{Config, ConfigError, Entry, config_locations};

/// Finds an entry by name, in all configuration files. A disabled entry is found only if no other
/// has the name. An entry of a project must be [trusted](Entry::trust) before use:
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use wharf::{Client, client::config};
///
/// let mut entry = config::find("files")?;
/// if !entry.is_trusted() {
///     println!("{} wants to start {}", entry.source.display(), entry.summary());
///     // Ask the user, and continue only with consent.
///     entry = entry.trust();
/// }
/// let client = Client::connect(entry).await?;
/// # let _ = client;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If there is none, or several files mean different servers by it. Then pass `FILE#NAME`: a project
/// you just opened must not redefine a name.
pub fn find(name: &str) -> Result<Entry, ConfigError> {
    let mut found: Vec<Entry> = Vec::new();
    let (mut others, mut unread) = (Vec::new(), Vec::new());
    for place in config_locations().into_iter().filter(|place| place.path.exists()) {
        let config = match Config::read(&place.path) {
            Ok(config) => config,
            Err(error) if error.names_no_servers => continue,
            Err(error) => {
                unread.push(error.problem);
                continue;
            }
        };
        for entry in config.entries {
            if entry.name != name {
                others.push(entry.name);
                continue;
            }
            // Within one file the first entry applies.
            let known =
                |other: &&mut Entry| other.source == entry.source || other.is_same_server(&entry);
            match found.iter_mut().find(known) {
                // A project that repeats an entry of the user does not remove its trust.
                Some(same) if !same.is_trusted() && entry.is_trusted() => *same = entry,
                Some(_) => {}
                None => found.push(entry),
            }
        }
    }
    if found.iter().any(|entry| !entry.is_disabled()) {
        found.retain(|entry| !entry.is_disabled());
    } else {
        found.truncate(1);
    }
    match (found.pop(), found.is_empty()) {
        (Some(entry), true) => Ok(entry),
        (Some(entry), false) => {
            found.push(entry);
            Err(ConfigError::ambiguous(name, &found))
        }
        (None, _) => Err(ConfigError::unknown(name, others, &unread)),
    }
}

impl ConfigError {
    fn ambiguous(name: &str, found: &[Entry]) -> Self {
        let each = |entry: &Entry| format!("{}#{name}", entry.source.display());
        let choices: Vec<String> = found.iter().map(each).collect();
        let choices = choices.join(" or ");
        Self::with_message(format!(
            "{name:?} names different servers in different files: write {choices}"
        ))
    }

    /// `unread` contains the errors of files that may contain the name.
    fn unknown(name: &str, mut known: Vec<String>, unread: &[String]) -> Self {
        known.sort_unstable();
        known.dedup();
        let mut problem = match known.is_empty() {
            true => format!("no server {name:?} is configured; there are no others"),
            false => {
                format!("no server {name:?} is configured; configured are {}", known.join(", "))
            }
        };
        if !unread.is_empty() {
            problem = format!("{problem} (not read: {})", unread.join("; "));
        }
        ConfigError { known, ..Self::with_message(problem) }
    }
}
