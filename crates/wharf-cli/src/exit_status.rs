//! Exit status of the program, and that of each kind of error with its exceptions.

use wharf::ErrorKind;

/// Exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    /// Invalid command line, or invalid file named on it.
    Usage = 1,
    /// The server requires authorization or denies access.
    Authorization = 3,
    /// The server could not be reached.
    Unreachable = 4,
    /// The server returned an error, or a tool result with `isError`.
    Tool = 5,
    /// A skill, or a file of one, is not what its entry says.
    SkillRefused = 7,
    /// `wharf skills verify` did not read all files, because of its limits.
    SkillsUnchecked = 8,
    /// `wharf skills verify --require-digests` found generated files.
    SkillsDynamic = 9,
    /// Interrupted by Ctrl-C (SIGINT).
    Interrupted = 130,
    /// Terminated by the system or another program (SIGTERM).
    Terminated = 143,
    /// The reader closed stdout: the code that a shell reports for SIGPIPE.
    StdoutClosed = 141,
}

/// Returns the exit status for this kind of error.
pub(crate) fn exit(kind: ErrorKind) -> ExitStatus {
    use ErrorKind as K;
    match kind {
        K::Unauthenticated
        | K::Forbidden
        | K::InsufficientScope
        | K::AuthenticationFailed
        | K::AuthorizationFailed
        | K::InvalidCredentials
        | K::AccessDenied => ExitStatus::Authorization,
        K::TransportError
        | K::ConnectionClosed
        | K::RequestTimeout
        | K::Overloaded
        | K::RateLimited
        | K::TemporarilyUnavailable
        | K::UnsupportedProtocolVersion => ExitStatus::Unreachable,
        _ => ExitStatus::Tool,
    }
}

/// Returns the exit status for a failure to connect: no call was made, so only a denied access differs.
pub(crate) fn connect_exit(kind: ErrorKind) -> ExitStatus {
    match exit(kind) {
        ExitStatus::Authorization => ExitStatus::Authorization,
        _ => ExitStatus::Unreachable,
    }
}

/// Exit status for a name that the server does not have. The name is part of the command line.
pub(crate) const UNKNOWN_NAME_EXIT: ExitStatus = ExitStatus::Usage;
