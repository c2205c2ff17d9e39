import Reachability
import Testing

/// A listener to a monitor's raw transitions.
final class Watcher {
    let monitor: ReachabilityMonitor
    private let scope: Scope
    private let namespace: Namespace
    private var iterator: AsyncStream<Transition>.AsyncIterator
    private(set) var path: NetworkPath = .unknown
    private(set) var epoch: UInt64 = 0
    private var sequence: UInt64 = 0

    init(_ monitor: ReachabilityMonitor, _ scope: Scope, _ namespace: Namespace) {
        self.monitor = monitor
        self.scope = scope
        self.namespace = namespace
        iterator = monitor.transitions(to: scope, raw: true).makeAsyncIterator()
    }

    /// Takes the baseline.
    func start() async throws {
        let baseline = try #require(await iterator.next(isolation: #isolation))
        #expect(baseline.isBaseline && baseline.sequence == 0)
        path = baseline.current
        epoch = baseline.epoch
    }

    /// Returns the next transition; they have no holes.
    @discardableResult
    func next(_ location: SourceLocation = #_sourceLocation) async throws -> Transition {
        let transition = try #require(await iterator.next(isolation: #isolation), sourceLocation: location)
        #expect(transition.sequence == sequence + 1, sourceLocation: location)
        // Unpublished details, such as metrics, may have changed.
        #expect(transition.previous.map { $0.kinds(since: path) } == [], sourceLocation: location)
        sequence = transition.sequence
        path = transition.current
        epoch = transition.epoch
        return transition
    }

    /// The kernel's maximum delay of a lost carrier: it collects changes that are not urgent for up to 1 s
    /// (linkwatch_nextevent, net/core/link_watch.c).
    static let carrierDelay: Duration = .milliseconds(1100)

    /// Makes a change and waits for the expected path, for at most 1 s after the kernel's own delay.
    ///
    /// Then compares it with real sockets and `ip`.
    @discardableResult
    func expect(
        _ status: NetworkPath.Status, _ reason: OfflineReason? = nil, delay: Duration = .zero,
        after change: () async throws -> Void,
        _ location: SourceLocation = #_sourceLocation
    ) async throws -> Transition? {
        try await change()
        let clock = ContinuousClock()
        let start = clock.now
        var last: Transition?
        while path.status != status || path.offlineReason != reason {
            last = try await next(location)
        }
        #expect(clock.now - start < (.seconds(1) + delay) * Machine.slowness, "the verdict came late", sourceLocation: location)
        let verdicts = try await PathOracle.verdicts(on: scope, in: namespace)
        #expect(
            verdicts.contains(Verdict(path)), "the kernel says \(verdicts), the monitor \(Verdict(path))", sourceLocation: location)
        return last
    }

    /// Makes a change and waits for a transition of these kinds; the status may stay.
    @discardableResult
    func expect(
        kinds: Transition.Kinds, after change: () async throws -> Void, _ location: SourceLocation = #_sourceLocation
    ) async throws -> Transition {
        try await change()
        while true {
            let transition = try await next(location)
            if transition.kinds.isSuperset(of: kinds) { return transition }
        }
    }

    /// Makes a change and waits until packets leave by the interface.
    ///
    /// It waits for no kind of transition: a new link may lack its carrier for a moment, while its route is chosen already.
    @discardableResult
    func expect(
        interface name: String, after change: () async throws -> Void, _ location: SourceLocation = #_sourceLocation
    ) async throws -> Transition {
        try await change()
        while true {
            let transition = try await next(location)
            if path.interface?.name == name { return transition }
        }
    }

    /// Makes a change that must not be published: the next transition is that of the cable pulled afterwards.
    func expectSilence(
        pulling network: CabledNetwork, after change: () async throws -> Void, _ location: SourceLocation = #_sourceLocation
    ) async throws {
        try await change()
        let before = epoch
        try await network.pull()
        let transition = try await next(location)
        #expect(
            transition.kinds == .offline && transition.epoch == before,
            "published \(transition.kinds.names) because \(transition.cause)", sourceLocation: location)
    }
}
