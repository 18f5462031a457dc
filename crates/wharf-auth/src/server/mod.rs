//! Who may call.
