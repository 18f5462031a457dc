//! Tasks that export: one for spans, in batches, and one for metrics, at intervals. Neither waits for the other.

use std::{future::Future, sync::Arc, time::SystemTime};

use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use wharf_model::LogThrottle;

use crate::{
    Metrics,
    otlp::{
        FLUSH_TIMEOUT, message::Message, metrics::MetricMessages, send::OtlpSender,
        settings::OtlpSettings, spans::export_request,
    },
    traces::queue::{SpanQueue, count_dropped},
};

static METRICS_LINE: LogThrottle = LogThrottle::every_seconds(60);
static WARNING_LINE: LogThrottle = LogThrottle::every_seconds(60);

/// True once the export is shut down.
pub(crate) type StopSignal = watch::Receiver<bool>;

/// Runs an export, but does not delay a shutdown by a receiver that does not answer.
async fn until_stop(stop: &mut StopSignal, export: impl Future<Output = ()>) {
    tokio::select! {
        () = export => {}
        _ = stop.wait_for(|stopped| *stopped) => {}
    }
}

/// Export of spans.
pub(crate) struct SpanExport {
    settings: OtlpSettings,
    queue: Arc<SpanQueue>,
    receiver: OtlpSender,
    /// Batch that is being sent, with the number of its spans. A shutdown interrupts that, and sends it again.
    unsent: Option<(usize, Message)>,
}

impl SpanExport {
    pub(crate) fn new(settings: OtlpSettings, queue: Arc<SpanQueue>, receiver: OtlpSender) -> Self {
        SpanExport { settings, queue, receiver, unsent: None }
    }

    /// Runs until the export is shut down; then exports what is left, once.
    pub(crate) async fn run(mut self, mut stop: StopSignal) {
        let (delay, queue) = (self.settings.batch.delay, self.queue.clone());
        loop {
            tokio::select! {
                _ = stop.wait_for(|stopped| *stopped) => break,
                () = queue.filled.notified() => {}
                () = sleep(delay) => {}
            }
            until_stop(&mut stop, self.export(None)).await;
        }
        self.export(Some(Instant::now() + FLUSH_TIMEOUT)).await;
    }

    /// Exports a batch, and more while they are full. With a deadline it exports all spans; without, each batch has the
    /// timeout of the settings.
    async fn export(&mut self, flush: Option<Instant>) {
        loop {
            if self.unsent.is_none() {
                let spans = self.queue.take();
                let batch = (spans.len(), export_request(&self.settings.resource, spans));
                self.unsent = Some(batch).filter(|it| it.0 > 0);
            }
            let Some((count, request)) = &self.unsent else { return };
            let deadline = flush.unwrap_or_else(|| Instant::now() + self.settings.batch.timeout);
            match self.receiver.send(request, deadline).await {
                Ok(partial) if partial.rejected > 0 => {
                    let rejected = usize::try_from(partial.rejected).unwrap_or(*count);
                    count_dropped(rejected.min(*count), &partial.message);
                }
                Ok(partial) => log_warning(&partial.message),
                Err(reason) => count_dropped(*count, &reason),
            }
            self.unsent = None;
            if flush.is_none() && !self.queue.is_filled() {
                return;
            }
        }
    }
}

/// Counts the spans that are left when the process ends. Those of calls that end later are counted by the queue.
impl Drop for SpanExport {
    fn drop(&mut self) {
        let left = self.queue.end() + self.unsent.take().map_or(0, |it| it.0);
        if left > 0 {
            count_dropped(left, "the process ended before their export");
        }
    }
}

/// Export of metrics.
pub(crate) struct MetricExport {
    settings: OtlpSettings,
    metrics: Metrics,
    receiver: OtlpSender,
    started: SystemTime,
}

impl MetricExport {
    pub(crate) fn new(settings: OtlpSettings, metrics: Metrics, receiver: OtlpSender) -> Self {
        MetricExport { settings, metrics, receiver, started: SystemTime::now() }
    }

    /// Runs until the export is shut down; then exports the last values, once.
    pub(crate) async fn run(mut self, mut stop: StopSignal) {
        let interval = self.settings.metric_interval;
        loop {
            let next = Instant::now() + interval;
            tokio::select! {
                _ = stop.wait_for(|stopped| *stopped) => break,
                () = sleep(interval) => {}
            }
            // An export that takes longer would delay the next values.
            until_stop(&mut stop, self.export(next + interval)).await;
        }
        self.export(Instant::now() + FLUSH_TIMEOUT).await;
    }

    async fn export(&mut self, deadline: Instant) {
        let mut messages = MetricMessages::since(self.started);
        self.metrics.collect(&mut messages);
        let request = messages.export_request(&self.settings.resource);
        // The next export has the same series, so nothing is lost.
        match self.receiver.send(&request, deadline).await {
            Ok(partial) if partial.rejected > 0 => {
                if let Some(suppressed) = METRICS_LINE.due() {
                    let (rejected, reason) = (partial.rejected, partial.message);
                    tracing::warn!(
                        rejected,
                        reason,
                        suppressed,
                        "lost metrics: the receiver rejected them"
                    );
                }
            }
            Ok(partial) => log_warning(&partial.message),
            Err(error) => {
                if let Some(suppressed) = METRICS_LINE.due() {
                    tracing::warn!(error, suppressed, "cannot export metrics");
                }
            }
        }
    }
}

/// Logs the message of a receiver that accepted everything.
fn log_warning(message: &str) {
    if !message.is_empty()
        && let Some(suppressed) = WARNING_LINE.due()
    {
        tracing::warn!(
            warning = message,
            suppressed,
            "received a warning from the receiver of OTLP"
        );
    }
}
