//! End of a session, by DELETE, expiry, eviction or shutdown: its running calls and its streams end with it.

use std::sync::atomic::Ordering;

use crate::server::http::session::live_session::Session;

impl Session {
    /// Ends the session, its calls and its streams.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
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
