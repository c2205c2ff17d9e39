/// Somewhere to write lines to.
protocol LineOutput: Sendable {
    /// Writes a line and its end, and returns when the system has taken it.
    func write(_ line: String) throws(OutputFailure)
}

/// A line could not be written.
enum OutputFailure: Error, Hashable {
    /// Nobody reads any more (EPIPE): no reason to complain.
    case readerGone
    /// The system refused, with this error number (errno(3)).
    case refused(errno: Int32)
}
