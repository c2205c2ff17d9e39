/// What a validator found at the far end of a path.
public enum PathValidation: Hashable, Sendable, CustomStringConvertible {
    /// The far end answered as expected.
    case validated
    /// Somebody on the way answers in its place; the URL of a page where the user can change that, if it is known.
    ///
    /// It comes from the network: do not trust it, and escape it before it reaches a terminal.
    case captivePortal(String?)
    /// There was no answer, or none that says anything: why not, in words.
    case failed(String)

    /// The finding in words.
    public var description: String {
        switch self {
        case .validated: "validated"
        case .captivePortal(let page): "behind a captive portal" + (page.map { ": \($0)" } ?? "")
        case .failed(let reason): "validation failed: \(reason)"
        }
    }
}

/// Finds out whether the far end answers over a path that the kernel would use.
///
/// The kernel's verdict says nothing about what lies behind the first hop. A validator sends something there and looks at what
/// comes back. `ReachableHTTP` has one that asks a web server; a program with a protocol of its own can ask its own servers.
public protocol PathValidator: Sendable {
    /// Finds out whether the far end answers.
    ///
    /// One call at a time is made. Its task is cancelled when the path has changed or
    /// ``ReachabilityMonitor/Configuration/validationTimeout`` is over; what is returned then is dropped, and the next call waits
    /// until this one is over: so end soon.
    ///
    /// - Parameter path: the path to the internet as it is now, with what the last validation over it found.
    /// - Returns: what was found.
    /// - Throws: Anything: it counts as ``PathValidation/failed(_:)`` with the error's description.
    func validate(_ path: NetworkPath) async throws -> PathValidation
}
