//! Export of the traces and metrics of a server that runs.

use wharf_telemetry::Otlp;

use super::Server;

/// Adds the observers of the export to the server, if the variables of OpenTelemetry name a receiver. A value that is not
/// supported is logged: the variables may be meant for other programs, too.
pub(super) fn export(server: Server) -> (Server, Option<Otlp>) {
    let otlp = match Otlp::from_env() {
        Ok(Some(otlp)) => otlp,
        Ok(None) => return (server, None),
        Err(error) => {
            tracing::error!(%error, "cannot export traces and metrics");
            return (server, None);
        }
    };
    // The metrics of the admin listener may be those of the export.
    let is_added = server.admin.as_ref().is_some_and(|admin| admin.exported);
    let metrics = otlp.metrics().filter(|_| !is_added);
    let server = match metrics {
        Some(metrics) => server.routing(|router| router.observe(metrics)),
        None => server,
    };
    let server = match otlp.traces() {
        Some(traces) => server.routing(|router| router.observe(traces)),
        None => server,
    };
    (server, Some(otlp))
}
