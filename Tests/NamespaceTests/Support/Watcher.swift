import Reachability
import Testing

/// Reads a monitor's raw transitions in order.
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

    /// The next transition; they come without holes.
    @discardableResult
    func next(_ location: SourceLocation = #_sourceLocation) async throws -> Transition {
        let transition = try #require(await iterator.next(isolation: #isolation), sourceLocation: location)
        #expect(transition.sequence == sequence + 1, sourceLocation: location)
        // Details such as metrics may have changed without being told.
        #expect(transition.previous.map { $0.kinds(since: path) } == [], sourceLocation: location)
        sequence = transition.sequence
        path = transition.current
        epoch = transition.epoch
        return transition
    }

    /// How long the kernel itself may take to announce that a carrier went: changes that are not urgent are collected for up to a
    /// second (linkwatch_nextevent, net/core/link_watch.c).
    static let carrierDelay: Duration = .milliseconds(1100)

    /// Makes a change and waits until the path is as it implies, within a second of what the kernel needs to announce it; then
    /// asks real sockets and `ip` whether it is so.
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
        let verdicts = try await PlainJudgement.verdicts(on: scope, in: namespace)
        #expect(
            verdicts.contains(Verdict(path)), "the kernel says \(verdicts), the monitor \(Verdict(path))", sourceLocation: location)
        return last
    }

    /// The same for a change that must be told although the status stays.
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

    /// Makes a change after which packets leave by an interface, and waits until they do.
    ///
    /// Not for a kind of transition: a link that was set up may have no carrier for a moment, and its route is chosen all the same.
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

    /// Makes a change that nobody must be told of: the next transition is that of a cable being pulled afterwards.
    func expectSilence(
        pulling network: CabledNetwork, after change: () async throws -> Void, _ location: SourceLocation = #_sourceLocation
    ) async throws {
        try await change()
        let before = epoch
        try await network.pull()
        let transition = try await next(location)
        #expect(
            transition.kinds == .offline && transition.epoch == before,
            "heard \(transition.kinds.names) because \(transition.cause)", sourceLocation: location)
    }
}
