import Glibc
import Reachability
import Synchronization
import TestSupport

/// A machine with three cables and an observed monitor.
final class FuzzedMachine: Sendable {
    /// A lasting difference between the monitor and the kernel.
    struct Divergence: Error, CustomStringConvertible {
        var description: String
    }

    /// A scope with its streams and its condition.
    struct Watch: Sendable {
        var checked: PathOracle.CheckedScope
        var raw: StreamRecord
        var damped: StreamRecord
        var condition: Condition
    }

    private let near: Namespace
    private let far: Namespace
    private let tap: MonitorTap
    let monitor: ReachabilityMonitor
    let watches: [Watch]
    /// Signals of possible changes.
    private let beats: AsyncStream<Void>
    private let beat: AsyncStream<Void>.Continuation
    private let sentMarks = Atomic(0)
    /// The number of times that the kernel had several answers and the monitor one of them.
    let ambiguities = Atomic(0)

    init() async throws {
        near = try await Namespace()
        far = try await Namespace()
        (beats, beat) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        tap = MonitorTap(KernelNetwork(networkNamespace: near.path), beat)
        var configuration = ReachabilityMonitor.Configuration()
        // An audit would hide a missing event.
        configuration.auditInterval = nil
        configuration.auditIntervalWhileUnsatisfied = nil
        configuration.lossGrace = .milliseconds(20)
        configuration.bufferedTransitions = 10_000
        monitor = ReachabilityMonitor(tap, configuration: configuration)
        watches = Self.scopes.map { [monitor] scope in
            Watch(
                checked: .init(scope), raw: StreamRecord(monitor, scope, isRaw: true),
                damped: StreamRecord(monitor, scope, isRaw: false), condition: monitor.condition(for: scope))
        }
        // The end of duplicate address detection is an event that would hide missing ones.
        let isUnchecked = ["all", "default"].map { NetworkChange.sysctl("ipv6/conf/\($0)/accept_dad", 0) }
        try await run(isUnchecked + (0...2).flatMap { [ChangeGenerator.link($0), .far("link set remote\($0) up")] })
    }

    /// The internet for different sockets, a neighbour of each family on the second cable, addresses that may be local by a route,
    /// and sockets bound to an alternative name.
    private static let scopes: [Scope] = {
        var scopes = Array(repeating: Scope.internet, count: 5)
        scopes[1].mark = 7
        scopes[2].interface = "cable1"
        scopes[3].port = 443
        scopes[4].transport = .udp
        scopes += ["10.1.0.77", "2001:db8:1::77", "1.1.1.1"].compactMap { IPAddress($0) }.map { Scope.address($0) }
        // IPv4 only: the source of another user's IPv6 socket is unknown.
        scopes[7].uid = Machine.otherUser
        scopes += ["198.18.5.7", "2001:db8:ff::7"].compactMap { IPAddress($0) }.map { Scope.address($0) }
        for address in [PathOracle.internet[0][0], PathOracle.internet[2][0]].compactMap({ IPAddress($0) }) {
            var scope = Scope.address(address)
            scope.interface = ChangeGenerator.alternativeName
            scopes.append(scope)
        }
        return scopes
    }()

    /// Runs the monitor while the body makes changes.
    func running(_ body: () async throws -> Void) async throws {
        // Signals kernel events and the passing of time.
        let pulse = Task { [near, beat] in
            try await KernelNetwork(networkNamespace: near.path).run { _ in
                beat.yield()
                return .milliseconds(25)
            }
        }
        let records = watches.flatMap { [$0.raw, $0.damped] }.map { record in Task { [beat] in await record.follow(beat) } }
        let running = Task { [monitor] in try await monitor.run() }
        defer {
            pulse.cancel()
            running.cancel()
            for record in records { record.cancel() }
        }
        try await body()
    }

    /// Returns the violated rules, which hold for any network.
    var faults: [String] {
        let health = monitor.health
        let counts = [
            "malformed": health.malformed, "spoofed": health.spoofed, "lost": health.losses, "failed": health.failedRequests,
        ]
        return watches.flatMap { $0.raw.faults + $0.damped.faults }
            + counts.filter { $0.value != 0 }.map { "\($0.value) \($0.key)" }
    }

    /// Applies changes and sends marks.
    ///
    /// Only the marks must succeed.
    private func run(_ changes: [NetworkChange]) async throws {
        let script = changes.script(near: near.name, far: far.name)
        let marks = MonitorTap.marks.joined(separator: "\n")
        try await Child.run(["ip", "netns", "exec", near.name, "sh"], input: "\(script)ip -batch - <<'END'\n\(marks)\nEND\n")
    }

    /// Applies changes, and marks their end.
    func make(_ changes: [NetworkChange]) async throws {
        try await run(changes)
        sentMarks.add(MonitorTap.marks.count, ordering: .relaxed)
    }

    /// Waits until the monitor has processed all events and agrees with the kernel.
    ///
    /// A busy machine has longer: the time counts only with as many looks at the monitor, and starts again while an event of a
    /// carrier is still in the kernel's work queue.
    func settle(within patience: Duration) async throws {
        let clock = ContinuousClock()
        let limit = clock.now + patience * 20
        var deadline = clock.now + patience
        var looks = 0
        var last = "the monitor does not come to rest"
        for await _ in beats {
            looks += 1
            if tap.marks >= sentMarks.load(ordering: .relaxed), tap.isWaiting {
                let view = try await view()
                guard let difference = difference(from: view) else { return }
                last = difference
                if view.links.contains(where: \.hasUnannouncedCarrier) {
                    deadline = clock.now + patience
                    looks = 0
                }
            }
            if clock.now > limit || (clock.now > deadline && looks > 30) { break }
        }
        // The choice among equal routes depends on the processor and the kernel's caches.
        var merged = try await view()
        for _ in 1...4 {
            for processor in 0..<sysconf(Int32(_SC_NPROCESSORS_ONLN)) {
                merged = merged.merged(with: try await view(processor: processor))
            }
        }
        guard merged.answers.contains(where: { $0.value.count > 1 }), difference(from: merged) == nil else {
            throw Divergence(description: last)
        }
        ambiguities.add(1, ordering: .relaxed)
    }

    private func view(processor: Int? = nil) async throws -> KernelView {
        try await .taken(of: Array(Set(watches.flatMap(\.checked.targets))), in: near, processor: processor)
    }

    /// Returns the difference between the monitor and the kernel; `nil` if they agree.
    private func difference(from view: KernelView) -> String? {
        let oracle = PathOracle(view: view)
        for watch in watches {
            let verdicts = oracle.verdicts(watch.checked)
            func difference(_ name: String, _ text: String, _ expected: (Verdict) -> String) -> String? {
                let expected = Set(verdicts.map(expected)).sorted()
                return expected.contains(text)
                    ? nil : "\(watch.checked.name): \(name) says \(text), the kernel \(expected)\n\(view)"
            }
            guard let raw = watch.raw.last, let damped = watch.damped.last else { return "\(watch.checked.name): no baseline" }
            let state = watch.condition.state
            let differences = [
                watch.checked.scope == .internet ? difference("the path", "\(Verdict(monitor.path))", \.description) : nil,
                difference("the last raw transition", Verdict(raw.current).published, \.published),
                difference("the last transition", Verdict(damped.current).published, \.published),
                watch.raw.losses == watch.damped.losses
                    ? nil : "\(watch.checked.name): \(watch.raw.losses) losses, \(watch.damped.losses) of them damped",
                state.isSatisfied == raw.current.isSatisfied ? nil : "\(watch.checked.name): the condition says \(state)",
                state.epoch == raw.epoch ? nil : "\(watch.checked.name): the condition says \(state), the transition \(raw.epoch)",
            ]
            if let first = differences.compactMap(\.self).first { return first }
        }
        return nil
    }
}

/// The kernel as a source that shows the monitor's progress.
///
/// A route to an unwatched address serves as a mark: the tap adds the address to the filter, and the monitor ignores the event.
/// When the mark has passed, all earlier events have passed.
final class MonitorTap: SourceWrapper, FilteringSource {
    /// The lines for `ip -batch` that send two marks.
    static let marks = ["route add blackhole \(mark)/32 table 9000", "route del blackhole \(mark)/32 table 9000"]
    private static let mark = "203.0.113.1"

    private struct State {
        var marks = 0
        var isWaiting = false
    }

    let network: KernelNetwork
    private let beat: AsyncStream<Void>.Continuation
    private let state = Mutex(State())

    init(_ network: KernelNetwork, _ beat: AsyncStream<Void>.Continuation) {
        self.network = network
        self.beat = beat
    }

    /// The number of marks that have passed.
    var marks: Int { state.withLock(\.marks) }

    /// `true` if the monitor waits for events only, or for a path to last, which takes seconds.
    ///
    /// Valid without audits.
    var isWaiting: Bool { state.withLock(\.isWaiting) }

    func run(deliver: @escaping @Sendable (NetworkEventBatch) -> Duration?) async throws {
        try await network.run { [self] batch in
            let wait = deliver(batch)
            state.withLock { state in
                state.marks += batch.events.count(where: Self.isMark)
                state.isWaiting = (wait ?? .seconds(1)) >= .milliseconds(200) && !batch.hasMore
            }
            beat.yield()
            return wait
        }
    }

    private static func isMark(_ event: NetworkEvent) -> Bool {
        guard case .route(let change) = event.payload else { return false }
        return change.destination.address.description == mark && change.destination.length == 32
    }

    func watch(_ destinations: Set<IPAddress>) { network.watch(destinations.union([Self.mark].compactMap { IPAddress($0) })) }
}
