//! Cancellation: a call in flight that is dropped ends its handler.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{
    CallOutcome,
    call::active_call::{ActiveCall, within},
};

impl ActiveCall {
    /// Drops the handler's future; its destructors may panic too.
    pub(super) fn drop_call(&mut self) {
        if let Some(call) = self.call.take() {
            let _ = within(&mut self.observed, || catch_unwind(AssertUnwindSafe(|| drop(call))));
        }
    }
}

impl Drop for ActiveCall {
    fn drop(&mut self) {
        self.drop_call();
        self.outbox.close();
        self.report_end(CallOutcome::Cancelled);
    }
}
