//! End of a session, by DELETE, expiry, eviction or shutdown: its running calls and its streams end with it.

use std::{sync::atomic::Ordering, time::Duration};

use wharf_model::{ObservedEvent, ObservedTransport, SessionEnd};

use crate::server::http::session::live_session::Session;

impl Session {
    /// Reports the start of the session to observers. It is in the table.
    pub(super) fn report_start(&self) {
        let (transport, client) = (ObservedTransport::Http, None);
        self.started.store(self.common.now().max(1), Ordering::Release);
        let observers = self.common.context.service.observers();
        observers.emit(|| ObservedEvent::SessionStarted { transport, client });
    }

    fn report_end(&self, error: Option<&'static str>) {
        let started = self.started.swap(0, Ordering::AcqRel);
        if started == 0 {
            return;
        }
        self.common.context.service.observers().emit(|| {
            let elapsed = Duration::from_millis(self.common.now().saturating_sub(started));
            let end = SessionEnd::new(ObservedTransport::Http, elapsed)
                .protocol_version(self.connection().protocol_version());
            ObservedEvent::SessionEnded(error.map_or(end, |error| end.error(error)))
        });
    }

    /// Ends the session because of this error, which observers receive.
    pub(crate) fn end_for(&self, error: &'static str) {
        self.report_end(Some(error));
        self.end();
    }

    /// Ends the session, its calls and its streams. A second end does nothing.
    pub(crate) fn end(&self) {
        self.report_end(None);
        if self.ended.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut streams = self.streams();
        streams.ended = true;
        let session_stream = streams.session_stream.take();
        let call_streams = std::mem::take(&mut streams.call_streams);
        drop(streams);
        // Before the calls are aborted, because they would send cancellations of their client requests.
        session_stream.iter().chain(call_streams.values()).for_each(|log| log.close());
        self.calls().abort_all();
        self.kind.on_end();
    }

    /// Ends the session's stream and its client requests on shutdown: neither ends by itself.
    pub(crate) fn shut_down(&self) {
        self.session_stream().end(None);
        self.calls().close();
    }
}
