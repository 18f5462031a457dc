//! Log of a server that runs for the lifetime of its process.

use crate::Result;

/// Log of a server that runs. Without the feature `logs` it has only status lines.
#[derive(Debug, Default)]
pub(crate) struct RunLog {
    #[cfg(feature = "logs")]
    pub(super) logs: wharf_telemetry::Logs,
}

impl RunLog {
    /// Installs the log, unless the application has installed its own.
    pub(super) fn start(&self) -> Result<()> {
        #[cfg(feature = "logs")]
        self.logs.start()?;
        Ok(())
    }

    /// Writes a line to stderr; a closed stderr is not an error.
    pub(super) fn print_status(&self, text: &str) {
        #[cfg(feature = "logs")]
        self.logs.print_status(text);
        #[cfg(not(feature = "logs"))]
        let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{text}\n").as_bytes());
    }
}
