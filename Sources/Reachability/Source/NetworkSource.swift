/// The origin of all that a monitor knows about the network: the kernel, a simulation or a recording.
///
/// Events are hints. A source may lose, repeat or reorder them, as long as ``interfaces()`` and ``routes(to:)`` answer the truth.
/// A source that filters events by address also conforms to ``FilteringSource``, one that looks up names to ``HostResolving``.
/// `NetworkSourceConformance`, in `ReachabilityTesting`, checks a source of your own against these requirements.
public protocol NetworkSource: Sendable {
    /// Subscribes, then calls `deliver` with each batch, until cancelled.
    ///
    /// Calls are serial and never re-entrant. The first one comes as soon as events can no longer be missed. Each call returns how
    /// long the monitor can wait for the next batch; after that time it wants an empty one. `nil` means that it needs none.
    ///
    /// A passing shortage of descriptors or memory is no reason to end: report it by ``NetworkEventBatch/impairment``.
    ///
    /// - Throws: ``ReachabilityError`` if it cannot subscribe, `CancellationError` when cancelled.
    func run(deliver: @escaping @Sendable (NetworkEventBatch) -> Duration?) async throws

    /// Asks for an empty batch soon, because a scope was added.
    ///
    /// The batch may be delivered before the call returns, by the calling thread: hold no lock that a listener needs. Callable
    /// from any thread, also from within `deliver`.
    func wake()

    /// Returns all links with their addresses, from one dump.
    ///
    /// Callable from any thread. It does not sleep: a dump that changed while it was made fails with
    /// ``ReachabilityError/Code/interrupted``, and the monitor asks again a little later.
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

/// A source that keeps away events which concern no watched address.
public protocol FilteringSource: NetworkSource {
    /// Sets the addresses that the monitor asks about; events that concern none of them need not be delivered.
    ///
    /// Called before ``NetworkSource/run(deliver:)``, and then within `deliver` before the monitor asks about a new address: a
    /// change after this call returned must be announced. Callable from any thread. A source that wraps another one passes the
    /// call on.
    func watch(_ addresses: Set<IPAddress>)
}

/// A source that looks up the addresses of hosts.
///
/// The monitor leaves hosts unresolved (``NameLookupFailure/notAsked``) on a source that does not conform.
public protocol HostResolving: NetworkSource {
    /// Begins to look up a host's addresses; the answer is delivered as an event, ``NetworkEvent/host(_:_:)``.
    ///
    /// Called within `deliver`; must not block.
    func resolve(_ host: String)
}

/// A source that also looks up names for callers outside of `run`.
package protocol HostAnswering: HostResolving {
    /// If false, a wrapped source looks up no names.
    var resolvesHosts: Bool { get }

    /// Returns hosts' addresses in the order of the hosts, all looked up now; blocks for at most the given time.
    ///
    /// - Parameter limit: the time after which an answer is ``NameLookupFailure/noAnswer``; `nil` waits for the resolver.
    func answers(for hosts: [String], within limit: Duration?) -> [HostAnswer]
}

extension HostAnswering {
    package var resolvesHosts: Bool { true }
}

extension NetworkSource {
    /// If false, hosts get no answers: neither the source nor one that it wraps looks up names.
    var answersHosts: Bool { (self as? any HostAnswering)?.resolvesHosts ?? (self is any HostResolving) }
}

/// A source whose thread runs tasks.
package protocol TaskRunningSource: NetworkSource {
    /// Runs the tasks that wait for the source's thread.
    ///
    /// Called within `deliver` once conditions were updated and before streams are.
    func runTasks()
}
