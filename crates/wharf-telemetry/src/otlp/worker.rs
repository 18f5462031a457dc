//! Task that exports batches of spans, and metrics at intervals.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
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

pub(crate) struct Worker {
    settings: OtlpSettings,
    queue: Arc<SpanQueue>,
    metrics: Option<Metrics>,
    stop: watch::Receiver<bool>,
    started: SystemTime,
    traces_to: Option<OtlpSender>,
    metrics_to: Option<OtlpSender>,
    /// Batch that is being sent, with the number of its spans. A shutdown interrupts that, and sends it again.
    unsent: Option<(usize, Message)>,
}

impl Worker {
    pub(crate) fn new(
        settings: OtlpSettings,
        queue: Arc<SpanQueue>,
        metrics: Option<Metrics>,
        stop: watch::Receiver<bool>,
    ) -> Self {
        let (traces_to, metrics_to) = (
            settings.traces.clone().map(OtlpSender::new),
            settings.metrics.clone().map(OtlpSender::new),
        );
        let started = SystemTime::now();
        let unsent = None;
        Worker { settings, queue, metrics, stop, started, traces_to, metrics_to, unsent }
    }

    /// Runs until the export is shut down; then exports what is left, once.
    pub(crate) async fn run(mut self) {
        let (delay, interval) = (self.settings.batch.delay, self.settings.metric_interval);
        let (queue, mut stop) = (self.queue.clone(), self.stop.clone());
        let (mut next_spans, mut next_metrics) =
            (Instant::now() + delay, Instant::now() + interval);
        while !*stop.borrow() {
            tokio::select! {
                _ = stop.changed() => break,
                () = queue.filled.notified() => {}
                () = sleep_until(next_spans.min(next_metrics)) => {}
            }
            let now = Instant::now();
            if now >= next_spans || queue.is_filled() {
                self.until_stop(&mut stop, Export::Spans).await;
                next_spans = Instant::now() + delay;
            }
            if now >= next_metrics {
                self.until_stop(&mut stop, Export::Metrics).await;
                next_metrics = now + interval;
            }
        }
        self.export_spans(FLUSH_TIMEOUT).await;
        self.export_metrics(FLUSH_TIMEOUT).await;
    }

    /// Exports, but does not delay a shutdown by a receiver that does not answer.
    async fn until_stop(&mut self, stop: &mut watch::Receiver<bool>, what: Export) {
        let timeout = self.settings.batch.timeout;
        let export = async {
            match what {
                Export::Spans => self.export_spans(timeout).await,
                Export::Metrics => self.export_metrics(timeout).await,
            }
        };
        tokio::select! {
            () = export => {}
            _ = stop.changed() => {}
        }
    }

    async fn export_spans(&mut self, timeout: Duration) {
        let Some(sender) = &mut self.traces_to else { return };
        loop {
            if self.unsent.is_none() {
                let spans = self.queue.take();
                let batch = (spans.len(), export_request(&self.settings.resource, spans));
                self.unsent = Some(batch).filter(|it| it.0 > 0);
            }
            let Some((count, request)) = &self.unsent else { return };
            if let Err(reason) = sender.send(request, Instant::now() + timeout).await {
                count_dropped(*count, &reason);
            }
            self.unsent = None;
        }
    }

    async fn export_metrics(&mut self, timeout: Duration) {
        let (Some(sender), Some(metrics)) = (&mut self.metrics_to, &self.metrics) else { return };
        let mut messages = MetricMessages::since(self.started);
        metrics.collect(&mut messages);
        let request = messages.export_request(&self.settings.resource);
        // The next export has the same series, so nothing is lost.
        if let Err(error) = sender.send(&request, Instant::now() + timeout).await
            && METRICS_LINE.is_due()
        {
            tracing::warn!(error, "cannot export metrics");
        }
    }
}

/// Counts the spans that are left when the process ends.
impl Drop for Worker {
    fn drop(&mut self) {
        let left = self.queue.take_all().len() + self.unsent.take().map_or(0, |it| it.0);
        if left > 0 {
            count_dropped(left, "the process ended before their export");
        }
    }
}

#[derive(Clone, Copy)]
enum Export {
    Spans,
    Metrics,
}
