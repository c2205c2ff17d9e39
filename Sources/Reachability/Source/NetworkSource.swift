/// A source of events and lookups: the kernel, a simulation or a recording.
///
/// A source may lose, repeat or reorder events if ``interfaces()`` and ``routes(to:)`` return the truth. A source that filters
/// events by address also conforms to ``FilteringSource``, one that looks up names to ``HostResolving``.
/// `NetworkSourceConformance`, in `ReachabilityTesting`, checks a source against these requirements.
public protocol NetworkSource: Sendable {
    /// Subscribes, then calls `deliver` with each batch, until cancelled.
    ///
    /// Calls are serial and never re-entrant. The first one comes as soon as no event can be missed any more. Each call returns the
    /// time after which the monitor wants an empty batch, unless another one comes earlier; `nil` means never.
    ///
    /// A source does not end for a passing shortage of descriptors or memory, but reports it by ``NetworkEventBatch/impairment``.
    ///
    /// - Throws: ``ReachabilityError`` if it cannot subscribe, `CancellationError` when cancelled.
    func run(deliver: @escaping @Sendable (NetworkEventBatch) -> Duration?) async throws

    /// Requests an empty batch soon, for example because a scope was added.
    ///
    /// The batch may be delivered before the call returns, by the calling thread: hold no lock that a listener needs. Callable
    /// from any thread, also from within `deliver`.
    func wake()

    /// Returns all links with their addresses, from one dump.
    ///
    /// Callable from any thread. It does not sleep: a dump that changed while it was made fails with
    /// ``ReachabilityError/Code/interrupted``, and the monitor repeats it a little later.
    ///
    /// - Throws: ``ReachabilityError`` if there is no answer.
    func interfaces() throws(ReachabilityError) -> [NetworkInterface]

    /// Looks up routes in the kernel's forwarding table (RTM_GETROUTE, rtnetlink(7)).
    ///
    /// Callable from any thread.
    ///
    /// - Returns: one result for each query, in the order of the queries. A refusal by the kernel is a verdict; an error means that
    ///   the query could not be asked.
    func routes(to queries: [RouteQuery]) -> [Result<RouteVerdict, ReachabilityError>]
}

/// A source that drops events about unwatched addresses.
public protocol FilteringSource: NetworkSource {
    /// Sets the addresses that the monitor looks up; other events need not be delivered.
    ///
    /// Called before ``NetworkSource/run(deliver:)``, and then within `deliver` before the first lookup of a new address: changes
    /// after this call must be announced. Callable from any thread. A source that wraps another one forwards the call.
    func watch(_ addresses: Set<IPAddress>)
}

/// A source that looks up the addresses of hosts.
///
/// The monitor leaves hosts unresolved (``NameLookupFailure/notAsked``) on a source that does not conform. A source that sees its
/// names change delivers ``NetworkEvent/resolverChanged(file:)``.
public protocol HostResolving: NetworkSource {
    /// Starts a lookup of a host's addresses; the event ``NetworkEvent/host(_:_:)`` delivers the answer.
    ///
    /// Called within `deliver`; must not block.
    func resolve(_ host: String)
}

/// A source that also looks up names for callers outside `run`.
package protocol HostAnswering: HostResolving {
    /// False if a wrapped source looks up no names.
    var resolvesHosts: Bool { get }

    /// Looks up hosts and returns their answers in the same order; blocks for at most the given time.
    ///
    /// - Parameter limit: the time after which an answer is ``NameLookupFailure/noAnswer``; `nil` waits for the resolver.
    func answers(for hosts: [String], within limit: Duration?) -> [HostAnswer]
}

extension HostAnswering {
    package var resolvesHosts: Bool { true }
}

extension NetworkSource {
    /// False if neither the source nor one that it wraps looks up names.
    var answersHosts: Bool { (self as? any HostAnswering)?.resolvesHosts ?? (self is any HostResolving) }
}

/// A source with a clock of its own: its time passes only when a test or a recording says so.
package protocol ClockedSource: NetworkSource {
    /// The clock, or `nil` if a wrapped source has none.
    var sourceClock: (any Clock<Duration>)? { get }
}

/// A source whose thread runs tasks.
package protocol TaskRunningSource: NetworkSource {
    /// Runs the tasks that wait for the source's thread.
    ///
    /// Called within `deliver` once conditions were updated and before streams are.
    func runTasks()
}
