/// The result of a validation of a path's far end.
public enum PathValidation: Hashable, Sendable, CustomStringConvertible {
    /// The far end answered as expected.
    case validated
    /// A captive portal answers in its place; with the URL of its page, if known.
    ///
    /// The URL comes from the network: do not trust it, and escape it before it reaches a terminal.
    case captivePortal(String?)
    /// There was no answer, or a meaningless one; with the reason in words.
    case failed(String)

    /// The result in words.
    public var description: String {
        switch self {
        case .validated: "validated"
        case .captivePortal(let page): "behind a captive portal" + (page.map { ": \($0)" } ?? "")
        case .failed(let reason): "validation failed: \(reason)"
        }
    }
}

/// A check of the far end over a path that the kernel would use.
///
/// The kernel's verdict says nothing about the network behind the first hop. A validator sends a request through it and checks
/// the response. `ReachableHTTP` has one that asks a web server; a program can ask its own servers by its own protocol.
public protocol PathValidator: Sendable {
    /// Checks the far end.
    ///
    /// The monitor makes one call at a time. It cancels the task when the path changes, or after
    /// ``ReachabilityMonitor/Configuration/validationTimeout``. It then ignores the result, but the next call waits until this one
    /// returns: return soon.
    ///
    /// - Parameter path: the present path to the internet, with its last validation.
    /// - Returns: the result.
    /// - Throws: any error; it is treated as ``PathValidation/failed(_:)`` with the error's description.
    func validate(_ path: NetworkPath) async throws -> PathValidation
}
