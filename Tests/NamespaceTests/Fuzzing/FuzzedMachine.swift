import Glibc
import Reachability
import Synchronization

/// A machine with three cables, and a monitor on it that is watched closely.
final class FuzzedMachine: Sendable {
    /// What the monitor says although the kernel says something else, for all the time it had.
    struct Divergence: Error, CustomStringConvertible {
        var description: String
    }

    /// A scope, and all that is told about it.
    struct Watch: Sendable {
        var subject: PlainJudgement.Subject
        var raw: StreamRecord
        var damped: StreamRecord
        var condition: Condition
    }

    private let near: Namespace
    private let far: Namespace
    private let tap: MonitorTap
    let monitor: ReachabilityMonitor
    let watches: [Watch]
    /// Something may have changed.
    private let beats: AsyncStream<Void>
    private let beat: AsyncStream<Void>.Continuation
    private let sentMarks = Atomic(0)
    /// How often the kernel had several answers to a question, and the monitor one of them.
    let ambiguities = Atomic(0)

    init() async throws {
        near = try await Namespace()
        far = try await Namespace()
        (beats, beat) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        tap = MonitorTap(KernelNetwork(networkNamespace: near.path), beat)
        var configuration = ReachabilityMonitor.Configuration()
        // An audit would find what an event should have told.
        configuration.auditInterval = nil
        configuration.auditIntervalWhileUnsatisfied = nil
        configuration.lossGrace = .milliseconds(20)
        configuration.bufferedTransitions = 10_000
        monitor = ReachabilityMonitor(tap, configuration: configuration)
        watches = Self.scopes.map { [monitor] scope in
            Watch(
                subject: .init(scope), raw: StreamRecord(monitor, scope, isRaw: true),
                damped: StreamRecord(monitor, scope, isRaw: false), condition: monitor.condition(for: scope))
        }
        // Duplicate address detection goes on in the background, and its end tells of everything that should have been told before.
        let isUnchecked = ["all", "default"].map { NetworkChange.setting("ipv6/conf/\($0)/accept_dad", 0) }
        try await run(isUnchecked + (0...2).flatMap { [ChangeGenerator.link($0), .far("link set remote\($0) up")] })
    }

    /// The internet, as different sockets see it, and a neighbour of each family on the second cable.
    private static let scopes: [Scope] = {
        var scopes = Array(repeating: Scope.internet, count: 5)
        scopes[1].mark = 7
        scopes[2].interface = "cable1"
        scopes[3].port = 443
        scopes[4].transport = .udp
        scopes += ["10.1.0.77", "2001:db8:1::77", "1.1.1.1"].compactMap { IPAddress($0) }.map { Scope.address($0) }
        // Over IPv4 only: which source another user's IPv6 socket would get cannot be known.
        scopes[7].uid = Machine.otherUser
        return scopes
    }()

    /// Runs the monitor while the body makes changes.
    func running(_ body: () async throws -> Void) async throws {
        // Tells of the kernel's own news, and passes the time.
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

    /// What must not have happened, whatever the network did.
    var faults: [String] {
        let health = monitor.health
        let counts = [
            "malformed": health.malformed, "spoofed": health.spoofed, "lost": health.losses, "failed": health.failedRequests,
        ]
        return watches.flatMap { $0.raw.faults + $0.damped.faults }
            + counts.filter { $0.value != 0 }.map { "\($0.value) \($0.key)" }
    }

    /// Makes changes and sends marks.
    ///
    /// Only these must succeed.
    private func run(_ changes: [NetworkChange]) async throws {
        let script = changes.script(near: near.name, far: far.name)
        let marks = MonitorTap.marks.joined(separator: "\n")
        try await Child.run(["ip", "netns", "exec", near.name, "sh"], input: "\(script)ip -batch - <<'END'\n\(marks)\nEND\n")
    }

    /// Makes changes, and marks their end.
    func make(_ changes: [NetworkChange]) async throws {
        try await run(changes)
        sentMarks.add(MonitorTap.marks.count, ordering: .relaxed)
    }

    /// Waits until all that was announced has been worked off and the monitor says what the kernel says.
    func settle(within patience: Duration) async throws {
        let clock = ContinuousClock()
        let deadline = clock.now + patience
        var last = "the monitor does not come to rest"
        for await _ in beats {
            if tap.marks >= sentMarks.load(ordering: .relaxed), tap.isWaiting {
                guard let difference = difference(from: try await view()) else { return }
                last = difference
            }
            if clock.now > deadline { break }
        }
        // Which of equal ways is taken may depend on the processor, and on what the kernel happens to have in its caches.
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
        try await .taken(of: Array(Set(watches.flatMap(\.subject.questions))), in: near, processor: processor)
    }

    /// How what the monitor says and tells differs from what it should; `nil` if it does not.
    private func difference(from view: KernelView) -> String? {
        let judgement = PlainJudgement(view: view)
        for watch in watches {
            let verdicts = judgement.verdicts(watch.subject)
            func difference(_ name: String, _ text: String, _ expected: (Verdict) -> String) -> String? {
                let expected = Set(verdicts.map(expected)).sorted()
                return expected.contains(text)
                    ? nil : "\(watch.subject.name): \(name) says \(text), the kernel \(expected)\n\(view)"
            }
            guard let raw = watch.raw.last, let damped = watch.damped.last else { return "\(watch.subject.name): no baseline" }
            let state = watch.condition.state
            let differences = [
                watch.subject.scope == .internet ? difference("the path", "\(Verdict(monitor.path))", \.description) : nil,
                difference("the last raw transition", Verdict(raw.current).told, \.told),
                difference("the last transition", Verdict(damped.current).told, \.told),
                state.isSatisfied == raw.current.isSatisfied ? nil : "\(watch.subject.name): the condition says \(state)",
                state.epoch == raw.epoch ? nil : "\(watch.subject.name): the condition says \(state), the transition \(raw.epoch)",
            ]
            if let first = differences.compactMap(\.self).first { return first }
        }
        return nil
    }
}
